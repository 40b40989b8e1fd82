// The least that a launch costs.
#pragma once

#include <cuda_runtime_api.h>

namespace mpfa::tools {

// One block of one warp that does nothing.
cudaError_t launch_empty_kernel(cudaStream_t stream);

}  // namespace mpfa::tools
