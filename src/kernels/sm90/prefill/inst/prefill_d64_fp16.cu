#include "kernels/sm90/prefill/instantiate.cuh"

namespace mpfa::kernels::sm90 {

template cudaError_t launch_prefill_as<Sm90PrefillConfig<64, ScoreType::kFp16, false>>(
    const Sm90PrefillParams&, cudaStream_t);

}  // namespace mpfa::kernels::sm90
