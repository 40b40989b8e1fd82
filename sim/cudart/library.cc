// Device code that the program loads at run time (cudaLibrary_t).
#include "sim/cudart/library.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "sim/cudart/api.h"
#include "sim/cudart/function.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/module.h"
#include "sim/fatbin/fat_binary.h"

namespace mpfa::sim::cudart {
namespace {

HandleTable<Module>& libraries() {
  static auto& all = *new HandleTable<Module>;
  return all;
}

// `address` and `bytes` may be null.
void give_variable(void** address, size_t* bytes, const void* library, const char* name) {
  const Symbol symbol = find_library_variable(library, name);
  if (address != nullptr) *address = reinterpret_cast<void*>(symbol.address);
  if (bytes != nullptr) *bytes = symbol.bytes;
}

}  // namespace

void* add_library(const void* image) {
  require_pointer(image, "code");
  return libraries().add(Module::of_image(image));
}

void* add_library_file(const char* file_name) {
  require_pointer(file_name, "fileName");
  std::ifstream file(file_name, std::ios::binary);
  require(file.good(), cudaErrorFileNotFound, file_name, " cannot be read");
  std::string contents{std::istreambuf_iterator<char>(file), {}};
  constexpr size_t kHeaderBytes = 16;  // what tells a fat binary from PTX
  contents.resize(std::max(contents.size(), kHeaderBytes));
  if (is_fat_binary(contents.data())) read_fat_binary(std::as_bytes(std::span(contents)));
  return add_library(contents.data());
}

std::shared_ptr<Module> find_library(const void* handle) {
  std::shared_ptr<Module> library = libraries().share(handle);
  require(library != nullptr, cudaErrorInvalidResourceHandle, "there is no library at ", handle);
  return library;
}

Function* find_library_function(const void* library, const char* name) {
  require_pointer(name, "name");
  const std::shared_ptr<Module> module = find_library(library);
  require(module->program().find_kernel(name) != nullptr, cudaErrorSymbolNotFound,
          "the library has no kernel ", name);
  const std::shared_ptr<Function>& function = module->function(name);
  register_function(function);
  return function.get();
}

Symbol find_library_variable(const void* library, const char* name) {
  require_pointer(name, "name");
  const Symbol symbol = find_library(library)->program().find_symbol(name);
  require(symbol.bytes != 0, cudaErrorSymbolNotFound, "the library has no variable ", name);
  return symbol;
}

void unload_library(const void* handle) {
  const std::shared_ptr<Module> library = find_library(handle);
  forget_functions(*library);
  libraries().remove(handle);
}

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  return api_call("cudaLibraryLoadData", [&] {
    require_pointer(library, "library");
    *library = static_cast<cudaLibrary_t>(add_library(code));
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file_name, cudaJitOption*,
                                    void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  return api_call("cudaLibraryLoadFromFile", [&] {
    require_pointer(library, "library");
    *library = static_cast<cudaLibrary_t>(add_library_file(file_name));
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return api_call("cudaLibraryUnload", [&] { unload_library(library); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return api_call("cudaLibraryGetKernel", [&] {
    require_pointer(kernel, "pKernel");
    *kernel = to_handle<cudaKernel_t>(find_library_function(library, name));
  });
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return api_call("cudaLibraryGetKernelCount", [&] {
    require_pointer(count, "count");
    *count = static_cast<unsigned>(find_library(library)->program().kernel_names().size());
  });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count,
                                        cudaLibrary_t library) {
  return api_call("cudaLibraryEnumerateKernels", [&] {
    require_pointer(kernels, "kernels");
    const auto names = find_library(library)->program().kernel_names();
    const size_t given = std::min<size_t>(count, names.size());
    for (size_t i = 0; i < given; ++i) {
      kernels[i] = to_handle<cudaKernel_t>(find_library_function(library, names[i].c_str()));
    }
  });
}

cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return api_call("cudaLibraryGetGlobal", [&] { give_variable(address, bytes, library, name); });
}

cudaError_t cudaLibraryGetManaged(void** address, size_t* bytes, cudaLibrary_t library,
                                  const char* name) {
  return api_call("cudaLibraryGetManaged", [&] {
    require_pointer(name, "name");
    require(find_library(library)->has_managed_variable(name), cudaErrorSymbolNotFound,
            "the library has no managed variable ", name);
    give_variable(address, bytes, library, name);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
