#include "kernels/sm90/prefill/config.h"
#include "kernels/sm90/prefill/prefill.h"

namespace mpfa::kernels::sm90 {

template <class Config>
cudaError_t launch_prefill_as(const Sm90PrefillParams& params, cudaStream_t stream);

namespace {

// Calls `use` with the config of a launch.
template <int kDim, ScoreType kScores, class Use>
auto with_extra(const PrefillLaunch& launch, Use use) {
  return launch.has_extra ? use(Sm90PrefillConfig<kDim, kScores, true>())
                          : use(Sm90PrefillConfig<kDim, kScores, false>());
}
template <int kDim, class Use>
auto with_scores(const PrefillLaunch& launch, Use use) {
  return launch.scores == ScoreType::kFp32 ? with_extra<kDim, ScoreType::kFp32>(launch, use)
                                           : with_extra<kDim, ScoreType::kFp16>(launch, use);
}

}  // namespace

cudaError_t launch_prefill(const PrefillLaunch& launch, const Sm90PrefillParams& params,
                           cudaStream_t stream) {
  const auto use = [&](auto config) { return launch_prefill_as<decltype(config)>(params, stream); };
  return launch.head_dim == 64 ? with_scores<64>(launch, use) : with_scores<128>(launch, use);
}

}  // namespace mpfa::kernels::sm90
