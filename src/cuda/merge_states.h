// merge_states() on a GPU.
#pragma once

#include <dlpack/dlpack.h>

#include <span>

#include "mpfa/stream.h"

namespace mpfa::internal {

// Errors: InvalidArgument, CudaError; before anything is launched.
void cuda_merge_states(const DLTensor& out, const DLTensor* lse,
                       std::span<const DLTensor* const> outs, std::span<const DLTensor* const> lses,
                       cudaStream_t stream);

}  // namespace mpfa::internal
