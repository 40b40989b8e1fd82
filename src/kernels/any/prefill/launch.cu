#include "kernels/any/prefill/config.h"
#include "kernels/any/prefill/prefill.h"

namespace mpfa::kernels {

template <class Config>
cudaError_t launch_prefill_as(const PrefillParams& params, cudaStream_t stream);

namespace {

// Calls `use` with the config of a launch.
template <class Use>
auto with_config(const PrefillLaunch& launch, Use use) {
  if (launch.head_dim == 64) {
    return launch.has_extra ? use(PrefillConfig<64, true>()) : use(PrefillConfig<64, false>());
  }
  return launch.has_extra ? use(PrefillConfig<128, true>()) : use(PrefillConfig<128, false>());
}

}  // namespace

int prefill_shared_bytes(const PrefillLaunch& launch, bool has_delta, int group_size) {
  return with_config(
      launch, [&](auto config) { return decltype(config)::shared_bytes(has_delta, group_size); });
}

cudaError_t launch_prefill(const PrefillLaunch& launch, const PrefillParams& params,
                           cudaStream_t stream) {
  return with_config(
      launch, [&](auto config) { return launch_prefill_as<decltype(config)>(params, stream); });
}

}  // namespace mpfa::kernels
