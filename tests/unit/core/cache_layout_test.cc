#include "core/cache_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "unit/core/expect_invalid.h"
#include "unit/core/test_cache.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::TestCache;
using core_test::TestTensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// --- What is allowed ----------------------------------------------------------------------------

TEST(CheckCache, ReadsEverySize) {
  TestCache cache;
  const CacheTensors t = check_cache(cache.view);
  EXPECT_EQ(t.num_pages, TestCache::kPages);
  EXPECT_EQ(t.num_kv_heads, TestCache::kKvHeads);
  EXPECT_EQ(t.num_q_heads, TestCache::kQHeads);
  EXPECT_EQ(t.page_size, 16);
  EXPECT_EQ(t.head_dim, 64);
  EXPECT_EQ(t.residual_rank, 8);
  EXPECT_EQ(t.num_stats, TestCache::kStats);
  EXPECT_TRUE(t.delta_s && t.k_residual && t.k_first && t.stats_index && t.stats.residual_basis);
  EXPECT_EQ(t.k_codes.at(), cache.k_codes.data<uint8_t>());
  const int64_t heads = 2, tokens = 16, head_dim = 64;
  EXPECT_EQ(t.v.at(1, 1, 3, 5), cache.v.data<E4m3>() + ((heads + 1) * tokens + 3) * head_dim + 5);
}

TEST(CheckCache, EveryPageSizeHeadDimAndRank) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t page_size : {16, 32, 64, 128}) {
      for (const int64_t rank : {4, 8, 16}) {
        TestCache cache(head_dim, page_size, rank);
        const CacheTensors t = check_cache(cache.view);
        EXPECT_EQ(t.head_dim, head_dim);
        EXPECT_EQ(t.page_size, page_size);
        EXPECT_EQ(t.residual_rank, rank);
      }
    }
  }
}

TEST(CheckCache, OnlyFourTensorsAreRequired) {
  TestCache cache;
  KvCacheView view;
  view.k_codes = cache.k_codes.get();
  view.k_scales = cache.k_scales.get();
  view.v = cache.v.get();
  view.stats.k_mean = cache.k_mean.get();
  const CacheTensors t = check_cache(view);
  EXPECT_EQ(t.num_q_heads, 0);
  EXPECT_EQ(t.residual_rank, 0);
  EXPECT_FALSE(t.delta_s || t.k_residual || t.k_first || t.stats_index || t.stats.q_mean);
  EXPECT_EQ(t.k_scale(1, 1), 1.0f);
  EXPECT_EQ(t.v_scale(0, 1), 1.0f);
  EXPECT_EQ(t.stats_row(3), 0);
}

TEST(CheckCache, NumQHeadsComesFromQMeanWithoutDeltaS) {
  TestCache cache;
  cache.view.delta_s = nullptr;
  EXPECT_EQ(check_cache(cache.view).num_q_heads, TestCache::kQHeads);
}

TEST(CheckCache, ScalesAndStatsRowsAreRead) {
  TestCache cache;
  const CacheTensors t = check_cache(cache.view);
  EXPECT_EQ(t.k_scale(0, 1), 2.0f);
  EXPECT_EQ(t.k_scale(1, 0), 3.0f);
  EXPECT_EQ(t.v_scale(1, 0), 7.0f);
  EXPECT_EQ(t.v_scale(0, 1), 6.0f);
  EXPECT_EQ(t.stats_row(2), 1);
  EXPECT_EQ(t.stats_row(3), 0);
}

TEST(CheckCache, BytesMayBeUint8AndCodesPairsOfE2m1) {
  TestCache cache;
  cache.k_codes->dtype = core_test::kFloat4Pair;
  for (TestTensor* tensor : {&cache.k_scales, &cache.v, &cache.k_residual}) {
    (*tensor)->dtype = core_test::kUint8;
  }
  EXPECT_NO_THROW(check_cache(cache.view));
}

TEST(CheckCache, OuterStridesAreFree) {
  // K and V codes interleaved per token, as some engines lay them out.
  TestCache cache;
  const int64_t head = 32 + 64, token = 2 * head, page = 16 * token;
  TestTensor both(core_test::kUint8, {3, 16, 2, head});
  cache.k_codes->data = both->data;
  cache.k_codes.set_strides({page, head, token, 1});
  cache.v->data = both->data;
  cache.v->byte_offset = 32;
  cache.v.set_strides({page, head, token, 1});
  const CacheTensors t = check_cache(cache.view);
  EXPECT_EQ(t.k_codes.at(1, 1, 2, 3), both.data<uint8_t>() + page + head + 2 * token + 3);
  EXPECT_EQ(t.v.at(1, 1, 2, 3), both.data<E4m3>() + page + head + 2 * token + 32 + 3);
}

TEST(CheckCache, NoPagesIsACache) {
  TestCache cache;
  for (TestTensor* tensor : {&cache.k_codes, &cache.k_scales, &cache.v, &cache.delta_s,
                             &cache.k_residual, &cache.k_first}) {
    tensor->set_size(0, 0);
    (*tensor)->data = nullptr;
  }
  EXPECT_EQ(check_cache(cache.view).num_pages, 0);
}

// --- Missing tensors ----------------------------------------------------------------------------

TEST(CheckCache, RequiredTensorsAreNamed) {
  struct Case {
    const char* name;
    void (*remove)(KvCacheView&);
    const char* reason;
  };
  const Case cases[] = {
      {"k_codes", [](KvCacheView& view) { view.k_codes = nullptr; }, "it is required"},
      {"k_scales", [](KvCacheView& view) { view.k_scales = nullptr; }, "it is required"},
      {"v", [](KvCacheView& view) { view.v = nullptr; }, "it is required"},
      {"k_mean", [](KvCacheView& view) { view.stats.k_mean = nullptr; }, "it is required"},
      {"q_mean", [](KvCacheView& view) { view.stats.q_mean = nullptr; }, "required with delta_s"},
      {"residual_basis", [](KvCacheView& view) { view.stats.residual_basis = nullptr; },
       "required with k_residual"},
      {"residual_scale", [](KvCacheView& view) { view.stats.residual_scale = nullptr; },
       "required with k_residual"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TestCache cache;
    c.remove(cache.view);
    expect_invalid([&] { check_cache(cache.view); }, {c.name, "is missing", c.reason});
  }
}

// --- Types, ranks, devices, strides -------------------------------------------------------------

TEST(CheckCache, TypeOfEveryTensorIsChecked) {
  TestCache cache;
  for (const auto& [name, tensor] : cache.all()) {
    const DLDataType right = (*tensor)->dtype;
    (*tensor)->dtype = core_test::kFloat64;
    expect_invalid([&] { check_cache(cache.view); },
                   {std::string(name) + " has type float64", "must be "});
    (*tensor)->dtype = right;
  }
  EXPECT_NO_THROW(check_cache(cache.view));
}

TEST(CheckCache, RankOfEveryTensorIsChecked) {
  const size_t count = TestCache().all().size();
  for (size_t i = 0; i < count; ++i) {
    TestCache cache;
    const auto [name, tensor] = cache.all()[i];
    std::vector<int64_t> shape((*tensor)->shape, (*tensor)->shape + (*tensor)->ndim);
    shape.insert(shape.begin(), 1);
    tensor->set_shape(shape);
    expect_invalid([&] { check_cache(cache.view); }, {name, "has shape [1, ", "must have "});
  }
}

TEST(CheckCache, DeviceAndDataOfEveryTensorAreChecked) {
  TestCache cache;
  for (const auto& [name, tensor] : cache.all()) {
    (*tensor)->device = {kDLCUDA, 0};
    expect_invalid([&] { check_cache(cache.view); }, {name, "device type 2", "device type 1"});
    (*tensor)->device = {kDLCPU, 0};
    void* data = std::exchange((*tensor)->data, nullptr);
    expect_invalid([&] { check_cache(cache.view); }, {name, "data pointer is null"});
    (*tensor)->data = data;
  }
  EXPECT_NO_THROW(check_cache(cache.view));
}

TEST(CheckCache, StridedInnerDimensionsAreRejectedByName) {
  TestCache cache;
  for (const auto& [name, tensor] : cache.all()) {
    if (name == "k_scale" || name == "v_scale" || name == "stats_index") continue;
    const int ndim = (*tensor)->ndim;
    std::vector<int64_t> strides(ndim, 1);
    strides.back() = 2;
    tensor->set_strides(strides);
    expect_invalid([&] { check_cache(cache.view); },
                   {name, "stride 2", "last dimension: must be 1"});
    (*tensor)->strides = nullptr;
  }
}

TEST(CheckCache, ScalesAndStatsIndexMayBeStrided) {
  TestCache cache;
  TestTensor wide(core_test::kFloat32, {2, 2, 3});
  wide.fill<float>({1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1});
  cache.k_scale->data = wide->data;
  cache.k_scale.set_strides({6, 3});
  cache.stats_index.set_shape({2});
  cache.stats_index.set_strides({3});
  const CacheTensors t = check_cache(cache.view);
  EXPECT_EQ(t.k_scale(1, 0), 3.0f);
  EXPECT_EQ(t.k_scale(0, 1), 2.0f);
  cache.stats_index.data<int32_t>()[3] = 1;
  EXPECT_EQ(t.stats_row(1), 1);
}

// --- Values -------------------------------------------------------------------------------------

TEST(CheckCache, ScalesMustBeFiniteAndPositive) {
  for (const float bad : {0.0f, -0.0f, -1.0f, kInf, -kInf, kNan}) {
    for (int i = 0; i < 4; ++i) {
      const std::string place = "[" + std::to_string(i / 2) + ", " + std::to_string(i % 2) + "] = ";
      TestCache cache;
      cache.k_scale.data<float>()[i] = bad;
      expect_invalid([&] { check_cache(cache.view); },
                     {"k_scale" + place + str_cat(bad), "must be finite and above 0"});
      cache.k_scale.data<float>()[i] = 1.0f;
      cache.v_scale.data<float>()[i] = bad;
      expect_invalid([&] { check_cache(cache.view); },
                     {"v_scale" + place + str_cat(bad), "must be finite and above 0"});
    }
  }
}

TEST(CheckCache, ResidualScalesMustBeFiniteAndPositive) {
  for (const float bad : {0.0f, -0.5f, kInf, kNan}) {
    for (int i = 0; i < 2 * 2 * 8; ++i) {
      TestCache cache;
      cache.residual_scale.data<float>()[i] = bad;
      expect_invalid(
          [&] { check_cache(cache.view); },
          {"residual_scale" + str_cat("[", i / 16, ", ", i / 8 % 2, ", ", i % 8, "] = ", bad),
           "must be finite and above 0"});
    }
  }
}

TEST(CheckCache, SmallestAndLargestScalesAreAllowed) {
  TestCache cache;
  cache.k_scale.data<float>()[0] = std::numeric_limits<float>::denorm_min();
  cache.v_scale.data<float>()[3] = std::numeric_limits<float>::max();
  EXPECT_NO_THROW(check_cache(cache.view));
}

TEST(CheckCache, WithoutStatsIndexEverySequenceHasRowZero) {
  TestCache cache;
  cache.view.stats_index = nullptr;
  EXPECT_EQ(check_cache(cache.view).stats_row(999), 0);
}

// --- Names for checks of memory -----------------------------------------------------------------

TEST(CacheTensorLists, WhatIsWrittenAndWhatIsRead) {
  TestCache cache;
  const auto names = [](const std::vector<NamedTensor>& tensors) {
    std::vector<std::string> result;
    for (const NamedTensor& t : tensors) result.emplace_back(t.name);
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(page_tensors(cache.view)),
            (Names{"the cache's k_codes", "the cache's k_scales", "the cache's v",
                   "the cache's delta_s", "the cache's k_residual", "the cache's k_first"}));
  EXPECT_EQ(names(stats_tensors(cache.view)),
            (Names{"k_mean", "q_mean", "residual_basis", "residual_scale", "k_scale", "v_scale",
                   "stats_index"}));
  // Statistics of a residual that the cache does not have are not checked, so not listed either.
  cache.view.k_residual = nullptr;
  cache.view.delta_s = nullptr;
  EXPECT_EQ(names(page_tensors(cache.view)), (Names{"the cache's k_codes", "the cache's k_scales",
                                                    "the cache's v", "the cache's k_first"}));
  EXPECT_EQ(names(stats_tensors(cache.view)),
            (Names{"k_mean", "q_mean", "k_scale", "v_scale", "stats_index"}));
}

}  // namespace
}  // namespace mpfa::internal
