// The calls that launch kernels.
#include <cuda_runtime_api.h>

#include <vector>

#include "sim/cudart/api.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/launch.h"

namespace mpfa::sim::cudart {
namespace {

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t dynamic_shared_bytes;
  cudaStream_t stream;
};

// Of the <<<>>> whose stubs have not been reached yet.
thread_local std::vector<CallConfiguration> configurations;

cudaError_t launch_call(const char* name, const void* function, dim3 grid, dim3 block,
                        void** arguments, size_t dynamic_shared_bytes, cudaStream_t stream,
                        bool cooperative = false) {
  return api_call(name, [&] {
    const cudaLaunchAttribute attribute = cooperative_attribute();
    launch(function, {to_dim3(grid), to_dim3(block), dynamic_shared_bytes},
           std::span(&attribute, cooperative ? 1 : 0), {.values = arguments, .buffer = {}}, stream);
  });
}

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                     cudaStream_t stream) {
  configurations.push_back({grid, block, dynamic_shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* dynamic_shared_bytes,
                                       void* stream) {
  if (configurations.empty()) {
    set_last_error(cudaErrorMissingConfiguration);
    return cudaErrorMissingConfiguration;
  }
  const CallConfiguration& last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *dynamic_shared_bytes = last.dynamic_shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t dynamic_shared_bytes, cudaStream_t stream) {
  return launch_call("cudaLaunchKernel", function, grid, block, arguments, dynamic_shared_bytes,
                     stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t dynamic_shared_bytes, cudaStream_t stream) {
  return launch_call("a kernel's launch", kernel, grid, block, arguments, dynamic_shared_bytes,
                     stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t dynamic_shared_bytes,
                                        cudaStream_t stream) {
  return launch_call("cudaLaunchCooperativeKernel", function, grid, block, arguments,
                     dynamic_shared_bytes, stream, true);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return api_call("cudaLaunchKernelExC", [&] {
    require_pointer(config, "config");
    require(config->numAttrs == 0 || config->attrs != nullptr, cudaErrorInvalidValue,
            "attrs is null");
    launch(function,
           {to_dim3(config->gridDim), to_dim3(config->blockDim), config->dynamicSmemBytes},
           std::span(config->attrs, config->numAttrs), {.values = arguments, .buffer = {}},
           config->stream);
  });
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  // A stub asks once and keeps the answer: a failure to load is for the launch to tell.
  return api_call("__cudaGetKernel", Needs::kNothing,
                  [&] { *kernel = to_handle<cudaKernel_t>(find_function(host_stub).get()); });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
