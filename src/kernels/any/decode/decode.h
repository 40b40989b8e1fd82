// Decode attention: one launch for all sequences of a batch.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/any/decode/config.h"

namespace mpfa::kernels {

// head_dim 64 or 128, row_tiles 1 or 2 (tiles of 8 query rows). `warps` at most
// max_decode_warps(head_dim, row_tiles); needs decode_shared_bytes() of shared memory.
struct DecodeLaunch {
  int head_dim = 128;
  int row_tiles = 1;
  int warps = 8;
  Variant variant = Variant::kLanes;
};

int decode_shared_bytes(const DecodeLaunch& launch, int rank, bool has_delta);
cudaError_t launch_decode(const DecodeLaunch& launch, const DecodeParams& params,
                          cudaStream_t stream);

}  // namespace mpfa::kernels
