// Means over the tokens of each sequence, in FP64.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/any/means/params.h"

namespace mpfa::kernels {

// One launch; asynchronous, without a workspace, fit for graphs. A sequence without tokens gets 0.
// The order of additions depends on shapes and lengths alone, so results repeat; they agree with
// the CPU's to the rounding of FP64 sums. Values of cu_seqlens beyond num_tokens count as
// num_tokens.
cudaError_t launch_means(const MeansParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels
