// compute_means() on a GPU.
#pragma once

#include <dlpack/dlpack.h>

#include "mpfa/stream.h"

namespace mpfa::internal {

// Errors: InvalidArgument, CudaError; before anything is launched.
void cuda_compute_means(const DLTensor& x, const DLTensor* cu_seqlens, const DLTensor& out,
                        cudaStream_t stream);

}  // namespace mpfa::internal
