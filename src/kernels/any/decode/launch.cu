#include "kernels/any/decode/config.h"
#include "kernels/any/decode/decode.h"

namespace mpfa::kernels {

template <class Config>
cudaError_t launch_decode_as(int warps, const DecodeParams& params, cudaStream_t stream);

namespace {

// Calls `use` with the config of a launch.
template <class Use>
auto with_config(const DecodeLaunch& launch, Use use) {
  if (launch.head_dim == 64) {
    return launch.row_tiles == 1 ? use(DecodeConfig<64, 1>()) : use(DecodeConfig<64, 2>());
  }
  return launch.row_tiles == 1 ? use(DecodeConfig<128, 1>()) : use(DecodeConfig<128, 2>());
}

}  // namespace

int decode_shared_bytes(const DecodeLaunch& launch, int rank, bool has_delta) {
  return with_config(launch, [&](auto config) {
    return plan_shared_memory<decltype(config)>(launch.warps, rank, has_delta).total;
  });
}

cudaError_t launch_decode(const DecodeLaunch& launch, const DecodeParams& params,
                          cudaStream_t stream) {
  return with_config(launch, [&](auto config) {
    return launch_decode_as<decltype(config)>(launch.warps, params, stream);
  });
}

}  // namespace mpfa::kernels
