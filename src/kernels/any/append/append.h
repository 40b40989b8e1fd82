// The cache writer: what append_token_reference() writes, bit for bit, for every token and KV head.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/any/append/params.h"

namespace mpfa::kernels {

// One launch; asynchronous, without a workspace, fit for graphs. cudaErrorInvalidValue for shapes
// that no kernel takes. Slots that occur twice leave either token's bytes.
cudaError_t launch_append(const AppendParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels
