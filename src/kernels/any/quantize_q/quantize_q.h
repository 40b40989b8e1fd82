// Queries in NVFP4, and their dot products with statistics: what quantize_q() writes on the CPU,
// bit for bit (NaNs of FP32 outputs apart).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/any/quantize_q/params.h"

namespace mpfa::kernels {

// One launch; asynchronous, without a workspace, fit for graphs. cudaErrorInvalidValue for shapes
// that the kernel does not take.
cudaError_t launch_quantize_q(const QuantizeQParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels
