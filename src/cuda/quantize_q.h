// quantize_q() on a GPU.
#pragma once

#include "mpfa/quant.h"

namespace mpfa::internal {

// Errors: InvalidArgument, CudaError; before anything is launched.
void cuda_quantize_q(const DLTensor& q, const QuantizedQ& out, const QuantizeQParams& params,
                     cudaStream_t stream);

}  // namespace mpfa::internal
