#include "kernels/sm90/prefill/instantiate.cuh"

namespace mpfa::kernels::sm90 {

template cudaError_t launch_prefill_as<Sm90PrefillConfig<64, false, true>>(
    const Sm90PrefillParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels::sm90
