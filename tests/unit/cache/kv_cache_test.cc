#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "core/cache_layout.h"
#include "mpfa/cache.h"
#include "support/resident_bytes.h"
#include "support/sanitizer.h"
#include "support/test_tensor.h"

namespace mpfa {
namespace {

using testing::expect_error;

KvCacheConfig small_config() {
  KvCacheConfig config;
  config.num_pages = 3;
  config.page_size = 16;
  config.num_q_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  return config;
}

// Everything that a configuration can ask for.
KvCacheConfig full_config() {
  KvCacheConfig config = small_config();
  config.delta_s = true;
  config.num_stats = 2;
  config.batch_size = 4;
  config.max_pages_per_seq = 5;
  return config;
}

void expect_tensor(const DLTensor* tensor, DLDataType dtype, const std::vector<int64_t>& shape) {
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(internal::dtype_string(tensor->dtype), internal::dtype_string(dtype));
  EXPECT_EQ(std::vector<int64_t>(tensor->shape, tensor->shape + tensor->ndim), shape);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 64, 0u);
  EXPECT_EQ(tensor->byte_offset, 0u);
  EXPECT_EQ(tensor->device.device_type, kDLCPU);
  ASSERT_NE(tensor->strides, nullptr);
  int64_t stride = 1;
  for (int i = tensor->ndim - 1; i >= 0; --i) {
    EXPECT_EQ(tensor->strides[i], stride);
    stride *= tensor->shape[i];
  }
}

template <typename T>
std::vector<T> values(const DLTensor* tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  const T* data = static_cast<const T*>(tensor->data);
  return std::vector<T>(data, data + count);
}

template <typename T>
void expect_all(const DLTensor* tensor, T expected) {
  for (const T value : values<T>(tensor)) ASSERT_EQ(value, expected);
}

TEST(KvCacheTest, ShapesTypesAndAlignmentAreThoseOfTheSpecification) {
  const KvCache cache(full_config());
  const KvCacheView& view = cache.view();
  expect_tensor(view.k_codes, testing::kU8, {3, 2, 16, 32});
  expect_tensor(view.k_scales, testing::kF8, {3, 2, 16, 4});
  expect_tensor(view.v, testing::kF8, {3, 2, 16, 64});
  expect_tensor(view.delta_s, testing::kBF16, {3, 6, 16});
  expect_tensor(view.k_residual, testing::kF8, {3, 2, 16, 8});
  expect_tensor(view.k_first, testing::kBF16, {3, 2, 64});
  expect_tensor(view.stats.k_mean, testing::kF32, {2, 2, 64});
  expect_tensor(view.stats.q_mean, testing::kF32, {2, 6, 64});
  expect_tensor(view.stats.residual_basis, testing::kF32, {2, 2, 8, 64});
  expect_tensor(view.stats.residual_scale, testing::kF32, {2, 2, 8});
  expect_tensor(view.stats.k_scale, testing::kF32, {2, 2});
  expect_tensor(view.stats.v_scale, testing::kF32, {2, 2});
  expect_tensor(view.stats_index, testing::kI32, {4});
  expect_tensor(cache.block_table(), testing::kI32, {4, 5});
  expect_tensor(cache.seq_lens(), testing::kI32, {4});
  EXPECT_NO_THROW(internal::check_cache(view));
}

TEST(KvCacheTest, StartsEmptyWithNeutralStatistics) {
  const KvCache cache(full_config());
  const KvCacheView& view = cache.view();
  for (const DLTensor* t : {view.k_codes, view.k_scales, view.v, view.k_residual}) {
    expect_all<uint8_t>(t, 0);
  }
  expect_all<uint16_t>(view.delta_s, 0);
  expect_all<uint16_t>(view.k_first, 0);
  expect_all<float>(view.stats.k_mean, 0);
  expect_all<float>(view.stats.q_mean, 0);
  expect_all<float>(view.stats.residual_scale, 1);
  expect_all<float>(view.stats.k_scale, 1);
  expect_all<float>(view.stats.v_scale, 1);
  expect_all<int32_t>(view.stats_index, 0);
  expect_all<int32_t>(cache.block_table(), 0);
  expect_all<int32_t>(cache.seq_lens(), 0);
  const std::vector<float> basis = values<float>(view.stats.residual_basis);
  for (size_t i = 0; i < basis.size(); ++i) {
    EXPECT_EQ(basis[i], i % 64 == i / 64 % 8 ? 1.0f : 0.0f) << i;
  }
}

TEST(KvCacheTest, LeavesOutWhatIsNotAskedFor) {
  KvCacheConfig config = small_config();
  config.residual_rank = 0;
  config.first_key = false;
  const KvCache cache(config);
  const KvCacheView& view = cache.view();
  for (const DLTensor* t :
       {view.delta_s, view.k_residual, view.k_first, view.stats.q_mean, view.stats.residual_basis,
        view.stats.residual_scale, view.stats_index, cache.block_table(), cache.seq_lens()}) {
    EXPECT_EQ(t, nullptr);
  }
  EXPECT_NO_THROW(internal::check_cache(view));
  config.batch_size = 2;  // without a width there is no block table, but rows can be picked
  const KvCache rows(config);
  expect_tensor(rows.view().stats_index, testing::kI32, {2});
  EXPECT_EQ(rows.block_table(), nullptr);
  EXPECT_EQ(rows.seq_lens(), nullptr);
}

TEST(KvCacheTest, NumberOfQueryHeadsIsNeededForDeltaSOnly) {
  KvCacheConfig config = small_config();
  config.num_q_heads = 0;
  EXPECT_NO_THROW(KvCache{config});
  config.delta_s = true;
  expect_error("num_q_heads = 0: must be a multiple of num_kv_heads, 2, above 0",
               [&] { KvCache{config}; });
}

TEST(KvCacheTest, MovingKeepsTensorsWhereTheyAre) {
  KvCache cache(full_config());
  const DLTensor* codes = cache.view().k_codes;
  const void* data = codes->data;
  KvCache moved(std::move(cache));
  EXPECT_EQ(moved.view().k_codes, codes);
  EXPECT_EQ(codes->data, data);
  KvCache assigned(small_config());
  assigned = std::move(moved);
  EXPECT_EQ(assigned.view().k_codes->data, data);
  EXPECT_EQ(assigned.config().batch_size, 4);
}

TEST(KvCacheTest, BytesCountPagesOnly) {
  KvCacheConfig config = full_config();
  const int64_t token_heads = 3 * 2 * 16;
  const int64_t first_keys = 3 * 2 * 64 * 2;
  EXPECT_EQ(KvCache(config).bytes(), token_heads * (32 + 4 + 64 + 3 * 2 + 8) + first_keys);
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 32 + 4 + 64 + 3 * 2 + 8);
  config.first_key = config.delta_s = false;
  config.residual_rank = 0;
  EXPECT_EQ(KvCache(config).bytes(), token_heads * 100);
}

// docs/spec.md, section 4: 200 and 100 bytes, 208 and 108 with the residual of rank 8.
TEST(BytesPerTokenTest, AreThoseOfTheSpecification) {
  KvCacheConfig config = small_config();
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 108);
  config.residual_rank = 0;
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 100);
  config.head_dim = 128;
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 200);
  config.residual_rank = 8;
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 208);
  config.delta_s = true;
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 214);
}

TEST(BytesPerTokenTest, NeedsNoPages) {
  KvCacheConfig config = small_config();
  config.num_pages = 0;
  EXPECT_EQ(bytes_per_token_and_kv_head(config), 108);
  config.head_dim = 96;
  expect_error("head_dim = 96: must be 64 or 128", [&] { bytes_per_token_and_kv_head(config); });
}

TEST(KvCacheConfigTest, ErrorsNameFieldValueAndWhatIsAllowed) {
  const auto expect = [](const std::string& start, int64_t KvCacheConfig::*field, int64_t value) {
    KvCacheConfig config = full_config();
    config.*field = value;
    expect_error(start, [&] { KvCache{config}; });
  };
  using C = KvCacheConfig;
  expect("num_pages = 0: must be 1 to 2147483647", &C::num_pages, 0);
  expect("num_pages = -1: must be 1 to 2147483647", &C::num_pages, -1);
  expect("num_pages = 2147483648: must be 1 to 2147483647", &C::num_pages, int64_t{1} << 31);
  expect("page_size = 8: must be 16, 32, 64 or 128", &C::page_size, 8);
  expect("page_size = 48: must be 16, 32, 64 or 128", &C::page_size, 48);
  expect("num_kv_heads = 0: must be at least 1", &C::num_kv_heads, 0);
  expect("num_q_heads = 5: must be a multiple of num_kv_heads, 2", &C::num_q_heads, 5);
  expect("num_q_heads = -2: must be a multiple of num_kv_heads, 2", &C::num_q_heads, -2);
  expect("head_dim = 256: must be 64 or 128", &C::head_dim, 256);
  expect("residual_rank = 2: must be 0, 4, 8 or 16", &C::residual_rank, 2);
  expect("num_stats = 0: must be at least 1", &C::num_stats, 0);
  expect("batch_size = -1: must not be negative", &C::batch_size, -1);
  expect("max_pages_per_seq = -1: must not be negative", &C::max_pages_per_seq, -1);
  expect("max_pages_per_seq = 5: must be 0 where batch_size is 0", &C::batch_size, 0);
}

TEST(KvCacheConfigTest, DevicesThatNoBackEndHasAreErrors) {
  KvCacheConfig config = full_config();
  config.device = {kDLROCM, 0};
  expect_error("device.device_type = 10: must be 1 (CPU) or 2 (CUDA), DLPack's numbers",
               [&] { KvCache{config}; });
}

TEST(KvCacheConfigTest, SizesThatOverflowAreErrors) {
  KvCacheConfig config = small_config();
  config.num_kv_heads = config.num_q_heads = int64_t{1} << 58;
  expect_error("k_codes would have shape [3, 288230376151711744, 16, 32]: its bytes must fit",
               [&] { KvCache{config}; });
  config = full_config();
  config.num_stats = std::numeric_limits<int64_t>::max();
  expect_error("k_mean would have shape [9223372036854775807, 2, 64]", [&] { KvCache{config}; });
  config = full_config();
  config.batch_size = int64_t{1} << 40;
  config.max_pages_per_seq = int64_t{1} << 40;
  EXPECT_THROW(KvCache{config}, Error);
}

TEST(KvCacheMemoryTest, AnUnusedCacheTakesAddressesOnly) {
  // It writes its own record of a block that is allocated, which touches all of it.
  if (testing::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer touches what is allocated";
  KvCacheConfig config = small_config();
  config.num_pages = 10000;
  config.page_size = 128;
  config.num_kv_heads = 8;
  config.num_q_heads = 32;
  config.head_dim = 128;
  const int64_t before = testing::resident_bytes();
  const KvCache cache(config);
  EXPECT_GT(cache.bytes(), int64_t{2} << 30);
  EXPECT_LT(testing::resident_bytes() - before, int64_t{64} << 20);
}

}  // namespace
}  // namespace mpfa
