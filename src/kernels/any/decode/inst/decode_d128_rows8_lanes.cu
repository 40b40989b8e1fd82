#include "kernels/any/decode/instantiate.cuh"

namespace mpfa::kernels {

template cudaError_t launch_decode_as<DecodeConfig<128, 1, Variant::kLanes>>(
    int warps, const DecodeParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels
