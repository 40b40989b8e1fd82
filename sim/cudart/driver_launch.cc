// The driver's functions that launch kernels.
#include "sim/cudart/driver_call.h"
#include "sim/cudart/launch.h"

namespace mpfa::sim::cudart {
namespace {

// The two APIs' attributes have the same layout and numbers.
static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
static_assert(static_cast<int>(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) ==
              static_cast<int>(cudaLaunchAttributeClusterDimension));

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** extra) {
  return driver_call("cuLaunchKernelEx", [&] {
    require_pointer(config, "config");
    require(config->numAttrs == 0 || config->attrs != nullptr, cudaErrorInvalidValue,
            "attrs is null");
    const auto* attributes = reinterpret_cast<const cudaLaunchAttribute*>(config->attrs);
    launch(function,
           {{config->gridDimX, config->gridDimY, config->gridDimZ},
            {config->blockDimX, config->blockDimY, config->blockDimZ},
            config->sharedMemBytes},
           std::span(attributes, config->numAttrs), {arguments, argument_buffer(extra)},
           config->hStream);
  });
}

CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z,
                       unsigned dynamic_shared_bytes, CUstream stream, void** arguments,
                       void** extra) {
  return driver_call("cuLaunchKernel", [&] {
    launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared_bytes},
           {}, {arguments, argument_buffer(extra)}, stream);
  });
}

CUresult launch_cooperative_kernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned dynamic_shared_bytes, CUstream stream,
                                   void** arguments) {
  return driver_call("cuLaunchCooperativeKernel", [&] {
    const cudaLaunchAttribute attribute = cooperative_attribute();
    launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared_bytes},
           std::span(&attribute, 1), {.values = arguments, .buffer = {}}, stream);
  });
}

}  // namespace

std::span<const DriverFunction> launch_functions() {
  static const DriverFunction kAll[] = {
      entry<launch_kernel>("cuLaunchKernel", 4000),
      entry<launch_kernel_ex>("cuLaunchKernelEx", 11060),
      entry<launch_cooperative_kernel>("cuLaunchCooperativeKernel", 9000),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
