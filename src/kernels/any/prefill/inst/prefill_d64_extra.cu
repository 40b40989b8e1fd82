#include "kernels/any/prefill/instantiate.cuh"

namespace mpfa::kernels {

template cudaError_t launch_prefill_as<PrefillConfig<64, true>>(const PrefillParams& params,
                                                                cudaStream_t stream);

}  // namespace mpfa::kernels
