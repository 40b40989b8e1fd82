// Unpacks the cache of a step for the prefill kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/sm90/prefill/params.h"

namespace mpfa::kernels::sm90 {

cudaError_t launch_unpack(int head_dim, const Sm90PrefillParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels::sm90
