// What nvcc's host code calls before main: it makes known the device code of a file, its kernels by
// their host stubs and its variables by their shadows. crt/host_runtime.h declares these functions.
#include <cuda_runtime_api.h>
#include <fatbinary_section.h>

#include "sim/cudart/api.h"
#include "sim/cudart/function.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/module.h"
#include "sim/cudart/variable.h"

namespace mpfa::sim::cudart {
namespace {

HandleTable<Module>& modules() {
  static auto& all = *new HandleTable<Module>;
  return all;
}

std::shared_ptr<Module> find_module(void** handle) {
  std::shared_ptr<Module> module = modules().share(handle);
  require(module != nullptr, cudaErrorInvalidResourceHandle, "no fat binary was registered at ",
          handle);
  return module;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  void** handle = nullptr;
  api_call("__cudaRegisterFatBinary", Needs::kNothing, [&] {
    const auto& binary = *static_cast<const __fatBinC_Wrapper_t*>(wrapper);
    require(binary.magic == FATBINC_MAGIC, cudaErrorInvalidKernelImage,
            "a fat binary's wrapper begins with ", binary.magic, " instead of ", FATBINC_MAGIC);
    handle = to_handle<void**>(
        modules().add(Module::of_fat_binary(binary.data, binary.version == FATBINC_LINK_VERSION)));
  });
  return handle;
}

void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}

void __cudaUnregisterFatBinary(void** handle) {
  api_call("__cudaUnregisterFatBinary", Needs::kNothing, [&] {
    const std::shared_ptr<Module> module = modules().remove(handle);
    if (module == nullptr) return;
    forget_functions(*module);
    forget_variables(*module);
  });
}

void __cudaRegisterFunction(void** handle, const char* host_stub, char* /*device_function*/,
                            const char* name, int /*thread_limit*/, uint3* /*tid*/, uint3* /*bid*/,
                            dim3* /*block*/, dim3* /*grid*/, int* /*warp_size*/) {
  api_call("__cudaRegisterFunction", Needs::kNothing,
           [&] { register_host_function(host_stub, find_module(handle)->function(name)); });
}

void __cudaRegisterVar(void** handle, char* shadow, char* /*device_address*/, const char* name,
                       int /*is_extern*/, size_t /*bytes*/, int /*is_constant*/,
                       int /*is_global*/) {
  api_call("__cudaRegisterVar", Needs::kNothing,
           [&] { register_variable(shadow, {.module = find_module(handle), .name = name}); });
}

void __cudaRegisterManagedVar(void** handle, void** host_pointer, char* /*device_address*/,
                              const char* name, int /*is_extern*/, size_t /*bytes*/,
                              int /*is_constant*/, int /*is_global*/) {
  api_call("__cudaRegisterManagedVar", Needs::kNothing, [&] {
    const std::shared_ptr<Module> module = find_module(handle);
    register_variable(host_pointer, {.module = module, .name = name, .managed = host_pointer});
    module->add_managed(name, host_pointer);
  });
}

// Called before the host first touches a managed variable of the module.
char __cudaInitModule(void** handle) {
  return static_cast<char>(api_call("__cudaInitModule", [&] { find_module(handle)->program(); }) ==
                           cudaSuccess);
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
