// A kernel as the runtime knows it: its code, and what cudaFuncSetAttribute changed.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "sim/machine/gpu.h"

namespace mpfa::sim::cudart {

class Module;

class Function {
 public:
  Function(std::weak_ptr<Module> module, std::string name)
      : module_(std::move(module)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  // Throws ApiError if it was unloaded: graphs hold functions, but not their modules.
  std::shared_ptr<Module> module() const;
  bool belongs_to(const Module& module) const { return module_.lock().get() == &module; }

  // The code, loaded if it was not; lives as long as the module. Throws ApiError if the module was
  // unloaded, cannot be loaded or has no such kernel.
  const Kernel& kernel() const;
  // The limit on dynamic shared memory: as set, or what is left of what needs no opting in.
  uint64_t max_dynamic_shared_bytes() const;
  // The largest cluster that a launch may ask for.
  int max_cluster_size() const;
  // The cluster that every launch must have: of .reqnctapercluster, or as set; zeros: none.
  Dim3 required_cluster() const;

  // Of cudaFuncSetAttribute; -1: not set.
  int max_dynamic_shared_set = -1;
  int shared_carveout = -1;  // percent
  Dim3 required_cluster_set = {0, 0, 0};
  bool non_portable_cluster_allowed = false;
  int cluster_scheduling_policy = 0;

 private:
  std::weak_ptr<Module> module_;  // which holds its functions
  std::string name_;
};

// A launch names its kernel by the address of its host stub, which registration made known, or by a
// cudaFunction_t, cudaKernel_t or CUfunction, each of which is a Function's address. Throws
// ApiError for anything else.
std::shared_ptr<Function> find_function(const void* handle);

// The same for host stubs only.
std::shared_ptr<Function> find_host_function(const void* host_stub);

void register_host_function(const void* host_stub, const std::shared_ptr<Function>& function);
// Makes a function's address a handle. Every function that a program was given is one.
void register_function(const std::shared_ptr<Function>& function);
// Forgets all handles of a module's functions.
void forget_functions(const Module& module);

}  // namespace mpfa::sim::cudart
