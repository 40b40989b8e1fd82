#include "kernels/sm90/prefill/config.h"
#include "kernels/sm90/prefill/prefill.h"

namespace mpfa::kernels::sm90 {

template <class Config>
cudaError_t launch_prefill_as(const Sm90PrefillParams& params, cudaStream_t stream);

namespace {

// Calls `use` with the config of a launch.
template <int kDim, bool kResidual, class Use>
auto with_extra(const PrefillLaunch& launch, Use use) {
  return launch.has_extra ? use(Sm90PrefillConfig<kDim, kResidual, true>())
                          : use(Sm90PrefillConfig<kDim, kResidual, false>());
}
template <int kDim, class Use>
auto with_residual(const PrefillLaunch& launch, Use use) {
  return launch.has_residual ? with_extra<kDim, true>(launch, use)
                             : with_extra<kDim, false>(launch, use);
}

}  // namespace

cudaError_t launch_prefill(const PrefillLaunch& launch, const Sm90PrefillParams& params,
                           cudaStream_t stream) {
  const auto use = [&](auto config) { return launch_prefill_as<decltype(config)>(params, stream); };
  return launch.head_dim == 64 ? with_residual<64>(launch, use) : with_residual<128>(launch, use);
}

}  // namespace mpfa::kernels::sm90
