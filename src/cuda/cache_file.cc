#include "cuda/cache_file.h"

#include "core/cache_layout.h"
#include "cuda/device.h"
#include "cuda/device_args.h"

namespace mpfa::internal {

void cuda_check_cache_file(const KvCacheFile& file) {
  DeviceArgs args(*file.cache.k_codes, "k_codes");
  check_cache(args.take(file.cache), Values::kOnDevice);
  static_cast<void>(
      Tensor<int32_t, 2>::from(args.take(file.block_table, "block_table"), "block_table", false));
  static_cast<void>(
      Tensor<int32_t, 1>::from(args.take(file.seq_lens, "seq_lens"), "seq_lens", false));
  static_cast<void>(device_info(args.device()));
}

}  // namespace mpfa::internal
