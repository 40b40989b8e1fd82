#include "kernels/any/decode/decode.h"

namespace mpfa::kernels {

template <class Config>
cudaError_t launch_decode_as(int warps, const DecodeParams& params, cudaStream_t stream);

namespace {

// Calls `use` with the config of a launch.
template <int kDim, int kTiles, class Use>
auto with_variant(Variant variant, Use use) {
  switch (variant) {
    case Variant::kBulk:
      return use(DecodeConfig<kDim, kTiles, Variant::kBulk>());
    case Variant::kBulkExtra:
      return use(DecodeConfig<kDim, kTiles, Variant::kBulkExtra>());
    default:
      return use(DecodeConfig<kDim, kTiles, Variant::kLanes>());
  }
}

template <class Use>
auto with_config(const DecodeLaunch& launch, Use use) {
  const Variant variant = launch.variant;
  if (launch.head_dim == 64) {
    return launch.row_tiles == 1 ? with_variant<64, 1>(variant, use)
                                 : with_variant<64, 2>(variant, use);
  }
  return launch.row_tiles == 1 ? with_variant<128, 1>(variant, use)
                               : with_variant<128, 2>(variant, use);
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
