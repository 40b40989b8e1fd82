#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "mpfa/cache.h"
#include "unit/cache/cache_file_parts.h"

namespace mpfa {
namespace {

using testing::CacheFileTest;
using testing::FileParts;
using testing::TestTensor;

TEST_F(CacheFileTest, RoundTripKeepsEveryByteAndTheMetadata) {
  for (const KvCacheConfig& config : testing::configs()) {
    const KvCache cache = testing::random_cache(config, 1);
    save_cache(path, {cache.view(), cache.block_table(), cache.seq_lens(), {{"model", "x"}}});
    std::map<std::string, std::string> metadata;
    const KvCache loaded = load_cache(path, &metadata);
    testing::expect_same(cache, loaded);
    EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"model", "x"}}));
    EXPECT_EQ(loaded.config().num_pages, config.num_pages);
    EXPECT_EQ(loaded.config().page_size, config.page_size);
    EXPECT_EQ(loaded.config().num_q_heads, config.delta_s ? config.num_q_heads : 0);
    EXPECT_EQ(loaded.config().num_kv_heads, config.num_kv_heads);
    EXPECT_EQ(loaded.config().head_dim, config.head_dim);
    EXPECT_EQ(loaded.config().residual_rank, config.residual_rank);
    EXPECT_EQ(loaded.config().first_key, config.first_key);
    EXPECT_EQ(loaded.config().delta_s, config.delta_s);
    EXPECT_EQ(loaded.config().num_stats, config.num_stats);
    EXPECT_EQ(loaded.config().batch_size, config.batch_size);
    EXPECT_EQ(loaded.config().max_pages_per_seq, config.max_pages_per_seq);
  }
}

TEST_F(CacheFileTest, NamesAndTypesAreThoseOfTheSpecification) {
  save_full();
  const FileParts parts(path);
  const std::map<std::string, internal::Dtype> expected = {
      {"k_codes", internal::Dtype::U8},         {"k_scales", internal::Dtype::F8_E4M3},
      {"v", internal::Dtype::F8_E4M3},          {"delta_s", internal::Dtype::BF16},
      {"k_residual", internal::Dtype::F8_E4M3}, {"k_first", internal::Dtype::BF16},
      {"k_mean", internal::Dtype::F32},         {"q_mean", internal::Dtype::F32},
      {"residual_basis", internal::Dtype::F32}, {"residual_scale", internal::Dtype::F32},
      {"k_scale", internal::Dtype::F32},        {"v_scale", internal::Dtype::F32},
      {"stats_index", internal::Dtype::I32},    {"block_table", internal::Dtype::I32},
      {"seq_lens", internal::Dtype::I32}};
  ASSERT_EQ(parts.tensors.size(), expected.size());
  for (const auto& [name, dtype] : expected) {
    ASSERT_TRUE(parts.tensors.contains(name)) << name;
    EXPECT_EQ(parts.tensors.at(name).dtype, dtype) << name;
  }
  EXPECT_EQ(parts.metadata,
            (std::map<std::string, std::string>{{"format", "mpfa-kv-cache"}, {"version", "1"}}));
}

// A view over strided memory gives the same file as the compact cache.
TEST_F(CacheFileTest, StridedTensorsAreWrittenContiguously) {
  const KvCache cache = testing::random_cache(testing::full_config(), 2);
  save_cache(path, {cache.view(), cache.block_table(), cache.seq_lens(), {}});
  const std::string expected = internal::read_file(path);
  for (const bool inner_gaps : {false, true}) {
    testing::StridedCopy copy(cache, inner_gaps);
    const std::string other = folder.file("strided");
    save_cache(other, copy.file());
    EXPECT_EQ(internal::read_file(other), expected);
  }
}

TEST_F(CacheFileTest, BytesStoredAsU8OrMissingOptionalTensorsAreAccepted) {
  const KvCache cache = save_full();
  FileParts parts(path);
  for (const char* name : {"k_scales", "v", "k_residual"}) {
    parts.tensors.at(name).dtype = internal::Dtype::U8;
  }
  parts.metadata.clear();
  parts.write(path);
  testing::expect_same(cache, load_cache(path));
  for (const char* name : {"k_scale", "v_scale", "k_first", "stats_index"}) {
    parts.tensors.erase(name);
  }
  parts.write(path);
  const KvCache loaded = load_cache(path);
  EXPECT_FALSE(loaded.config().first_key);
  const auto scale = internal::Tensor<float, 2>::from(loaded.view().stats.k_scale, "k_scale");
  EXPECT_EQ(*scale.at(1, 1), 1.0f);
  EXPECT_EQ(static_cast<const int32_t*>(loaded.view().stats_index->data)[3], 0);
}

TEST_F(CacheFileTest, StatisticsThatTheCacheDoesNotUseAreLeftOut) {
  KvCacheConfig config = testing::full_config();
  const KvCache full = testing::random_cache(config, 3);
  KvCacheFile file{full.view(), full.block_table(), full.seq_lens(), {}};
  file.cache.delta_s = nullptr;
  file.cache.k_residual = nullptr;
  save_cache(path, file);
  const FileParts parts(path);
  for (const char* name : {"q_mean", "residual_basis", "residual_scale"}) {
    EXPECT_FALSE(parts.tensors.contains(name)) << name;
  }
  EXPECT_EQ(load_cache(path).config().residual_rank, 0);
}

TEST_F(CacheFileTest, SaveRejectsWhatLoadWouldReject) {
  const KvCache cache = testing::random_cache(testing::full_config(), 4);
  const KvCacheFile good{cache.view(), cache.block_table(), cache.seq_lens(), {}};
  const auto expect = [&](const std::string& start, const KvCacheFile& file) {
    testing::expect_error(start, [&] { save_cache(path, file); });
    EXPECT_TRUE(folder.entries().empty());
  };
  KvCacheFile file = good;
  file.metadata = {{"format", "other"}};
  expect("metadata key 'format' is reserved", file);
  file.metadata = {{"version", "2"}};
  expect("metadata key 'version' is reserved", file);
  file = good;
  file.seq_lens = nullptr;
  expect("seq_lens is missing: it is required with block_table", file);
  file = good;
  file.block_table = nullptr;
  expect("block_table is missing: it is required with seq_lens", file);
  file = good;
  file.cache.k_codes = nullptr;
  expect("k_codes is missing: it is required", file);
  file = good;
  TestTensor index = testing::int_tensor({0, 0, 0});
  file.cache.stats_index = index.ptr();
  expect("stats_index has 3 elements: must have one per sequence, 4", file);
  file = good;
  TestTensor none(testing::kU8, {0, 2, 16, 32});
  TestTensor none_scales(testing::kF8, {0, 2, 16, 4}), none_v(testing::kF8, {0, 2, 16, 64});
  file = {};
  file.cache.k_codes = none.ptr();
  file.cache.k_scales = none_scales.ptr();
  file.cache.v = none_v.ptr();
  file.cache.stats.k_mean = cache.view().stats.k_mean;
  expect("k_codes has shape [0, 2, 16, 32]: needs at least one page", file);
}

TEST_F(CacheFileTest, AFailedSaveKeepsTheOldFile) {
  save_full();
  const std::string before = internal::read_file(path);
  const KvCache cache = testing::random_cache(testing::full_config(), 9);
  KvCacheFile file{cache.view(), cache.block_table(), cache.seq_lens(), {{"bad", "\xFF"}}};
  EXPECT_THROW(save_cache(path, file), InvalidArgument);
  EXPECT_EQ(internal::read_file(path), before);
  EXPECT_THROW(save_cache(folder.file("no/such/folder"),
                          {cache.view(), cache.block_table(), cache.seq_lens(), {}}),
               IoError);
}

}  // namespace
}  // namespace mpfa
