// The calls that launch kernels.
#include <cuda_runtime_api.h>

#include <vector>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/event.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/launch.h"
#include "sim/cudart/stream.h"

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

// Events that a launch is to record when its blocks have all begun, or said so.
void record_launch_events(Stream& stream, std::span<const cudaLaunchAttribute> attributes) {
  for (const cudaLaunchAttribute& attribute : attributes) {
    cudaEvent_t event = nullptr;
    if (attribute.id == cudaLaunchAttributeProgrammaticEvent) {
      event = attribute.val.programmaticEvent.event;
    } else if (attribute.id == cudaLaunchAttributeLaunchCompletionEvent) {
      event = attribute.val.launchCompletionEvent.event;
    }
    if (event == nullptr) continue;
    const std::shared_ptr<Event> found = find_event(event);
    if (stream.capture != nullptr) {
      capture_event_record(stream, *found);
    } else {
      found->record();
    }
  }
}

void launch(const void* function, const LaunchShape& shape,
            std::span<const cudaLaunchAttribute> attributes, void** arguments,
            cudaStream_t stream_handle) {
  Stream& stream = find_stream(stream_handle);
  KernelWork work;
  try {
    work = make_kernel_work(function, shape, attributes, {.values = arguments, .buffer = {}});
  } catch (...) {
    if (stream.capture != nullptr) invalidate(*stream.capture);
    throw;
  }
  issue(stream, std::move(work));
  record_launch_events(stream, attributes);
}

cudaError_t launch_call(const char* name, const void* function, dim3 grid, dim3 block,
                        void** arguments, size_t dynamic_shared_bytes, cudaStream_t stream,
                        bool cooperative = false) {
  return api_call(name, [&] {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    launch(function, {to_dim3(grid), to_dim3(block), dynamic_shared_bytes},
           std::span(&attribute, cooperative ? 1 : 0), arguments, stream);
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
           std::span(config->attrs, config->numAttrs), arguments, config->stream);
  });
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  // A stub asks once and keeps the answer: a failure to load is for the launch to tell.
  return api_call("__cudaGetKernel", Needs::kNothing,
                  [&] { *kernel = to_handle<cudaKernel_t>(find_function(host_stub).get()); });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
