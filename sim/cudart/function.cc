#include "sim/cudart/function.h"

#include <map>

#include "sim/cudart/api.h"
#include "sim/cudart/module.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

struct Functions {
  std::map<const void*, std::shared_ptr<Function>> by_host_stub;
  std::map<const void*, std::shared_ptr<Function>> by_address;
};

Functions& functions() {
  static auto& all = *new Functions;
  return all;
}

}  // namespace

std::shared_ptr<Module> Function::module() const {
  std::shared_ptr<Module> module = module_.lock();
  require(module != nullptr, cudaErrorInvalidResourceHandle, "the code of ", name_,
          " was unloaded");
  return module;
}

const Kernel& Function::kernel() const {
  const Kernel* found = module()->program().find_kernel(name_);
  require(found != nullptr, cudaErrorInvalidDeviceFunction, "the device code has no kernel ",
          name_);
  return *found;
}

uint64_t Function::max_dynamic_shared_bytes() const {
  if (max_dynamic_shared_set >= 0) return static_cast<uint64_t>(max_dynamic_shared_set);
  const auto limit = static_cast<uint64_t>(model().shared_bytes_per_block);
  const uint64_t used = kernel().static_shared_bytes;
  return used < limit ? limit - used : 0;
}

int Function::max_cluster_size() const {
  const int portable = model().max_cluster_size;
  return non_portable_cluster_allowed ? 2 * portable : portable;
}

Dim3 Function::required_cluster() const {
  const Dim3 written = kernel().required_cluster;
  return written.x != 0 ? written : required_cluster_set;
}

std::shared_ptr<Function> find_function(const void* handle) {
  require(handle != nullptr, cudaErrorInvalidDeviceFunction, "the kernel is null");
  for (const auto* table : {&functions().by_host_stub, &functions().by_address}) {
    const auto found = table->find(handle);
    if (found != table->end()) return found->second;
  }
  fail(cudaErrorInvalidResourceHandle, "no kernel was registered at ", handle);
}

std::shared_ptr<Function> find_host_function(const void* host_stub) {
  const auto found = functions().by_host_stub.find(host_stub);
  require(found != functions().by_host_stub.end(), cudaErrorInvalidDeviceFunction,
          "no kernel was registered at ", host_stub);
  return found->second;
}

void register_host_function(const void* host_stub, const std::shared_ptr<Function>& function) {
  // The linker keeps one stub of a template that several files instantiate; any of their copies of
  // the device code will do.
  functions().by_host_stub.emplace(host_stub, function);
  register_function(function);
}

void register_function(const std::shared_ptr<Function>& function) {
  functions().by_address[function.get()] = function;
}

void forget_functions(const Module& module) {
  const auto is_its = [&module](const auto& entry) { return entry.second->belongs_to(module); };
  std::erase_if(functions().by_host_stub, is_its);
  std::erase_if(functions().by_address, is_its);
}

}  // namespace mpfa::sim::cudart
