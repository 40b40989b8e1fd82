#include "kernels/any/decode/instantiate.cuh"

namespace mpfa::kernels {

template cudaError_t launch_decode_as<DecodeConfig<64, 2, Variant::kBulk>>(
    int warps, const DecodeParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels
