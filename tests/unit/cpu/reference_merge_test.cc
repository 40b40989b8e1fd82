// Merging states in FP64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/reference.h"
#include "unit/cpu/reference_cases.h"

namespace mpfa::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two halves of one sequence's keys, each a cache with its own means and compensation, merge into
// attention over all keys: rowbias in each LSE, and softcap on the whole score, make it so.
TEST(MergeStatesReference, ShardsCentredByDifferentMeans) {
  for (const float softcap : {0.0f, 4.0f}) {
    PagedCaseConfig first;
    first.kv_lens = {23};
    first.q_lens = {5};
    first.residual_rank = 8;
    first.first_key = true;
    PagedCaseConfig second = first;
    second.kv_lens = {30};
    second.seed = 2;
    second.residual_rank = 0;
    second.delta_s = true;
    const PagedCase a(first);
    PagedCase b(second);
    b.q = a.q;
    ASSERT_NE(a.k_mean.values(), b.k_mean.values());
    AttentionParams params;
    params.causal = false;
    params.softcap = softcap;
    const Output part_a = run(a, params), part_b = run(b, params);
    Output merged = part_a;
    const DLTensor* outs[] = {part_a.out.ptr(), part_b.out.ptr()};
    const DLTensor* lses[] = {part_a.lse.ptr(), part_b.lse.ptr()};
    merge_states_reference(merged.out.get(), merged.lse.ptr(), outs, lses);

    // The whole from both parts' definitions: unnormalised sums simply add up.
    const ExpectedAttention x = expected_attention(a, params), y = expected_attention(b, params);
    for (size_t n = 0; n < x.lse.size(); ++n) {
      const double wx = std::exp(x.lse[n]), wy = std::exp(y.lse[n]);
      EXPECT_NEAR(merged.lse.values()[n], std::log(wx + wy), 1e-11);
      for (size_t i = n * 64; i < (n + 1) * 64; ++i) {
        EXPECT_NEAR(merged.out.values()[i], (wx * x.out[i] + wy * y.out[i]) / (wx + wy), 1e-11);
      }
    }
  }
}

// One cache, split by pages into shards, against the whole cache.
TEST(MergeStatesReference, SplitsOfOneCacheAreTheWhole) {
  PagedCaseConfig config;
  config.kv_lens = {80};
  config.q_lens = {1};
  config.residual_rank = 4;
  config.delta_s = true;
  const PagedCase whole(config);
  const Output expected = run(whole);
  std::vector<Output> parts;
  for (const int32_t begin : {0, 2, 3}) {  // pages
    const int32_t end = begin == 0 ? 2 : begin == 2 ? 3 : 5;
    TensorBox<int32_t> table({1, end - begin}), lens({1});
    for (int32_t n = begin; n < end; ++n) table(0, n - begin) = whole.block_table(0, n);
    lens(0) = (end - begin) * 16;
    parts.push_back({TensorBox<double>({1, 2, 64}), TensorBox<double>({1, 2})});
    attention_reference(parts.back().out.get(), parts.back().lse.ptr(), whole.q.get(), whole.view(),
                        table.get(), lens.get(), nullptr);
  }
  Output merged{TensorBox<double>({1, 2, 64}), TensorBox<double>({1, 2})};
  const DLTensor* outs[] = {parts[0].out.ptr(), parts[1].out.ptr(), parts[2].out.ptr()};
  const DLTensor* lses[] = {parts[0].lse.ptr(), parts[1].lse.ptr(), parts[2].lse.ptr()};
  merge_states_reference(merged.out.get(), merged.lse.ptr(), outs, lses);
  expect_near(merged.out.values(), expected.out.values());
  expect_near(merged.lse.values(), expected.lse.values());
}

TEST(MergeStatesReference, StatesWithoutKeysCountForNothing) {
  const TensorBox<float> a({2, 1, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  const TensorBox<Bf16> b({2, 1, 2}, std::vector<Bf16>(4, Bf16{0x7FC0}));  // NaN
  const TensorBox<float> lse_a({2, 1}, {0.25f, -INFINITY});
  const TensorBox<double> lse_b({2, 1}, {-kInfinity, -kInfinity});
  TensorBox<double> out({2, 1, 2}), lse({2, 1});
  for (double& x : out.values()) x = NAN;
  const DLTensor* outs[] = {b.ptr(), a.ptr()};
  const DLTensor* lses[] = {lse_b.ptr(), lse_a.ptr()};
  merge_states_reference(out.get(), lse.ptr(), outs, lses);
  EXPECT_EQ(out.values(), (std::vector<double>{1.0, 2.0, 0.0, 0.0}));
  EXPECT_EQ(lse.values(), (std::vector<double>{0.25, -kInfinity}));
  // No part at all is the same as parts without keys.
  merge_states_reference(out.get(), lse.ptr(), {}, {});
  EXPECT_EQ(out.values(), std::vector<double>(4, 0.0));
  EXPECT_EQ(lse.values(), std::vector<double>(2, -kInfinity));
}

TEST(MergeStatesReference, FarApartStates) {
  const TensorBox<float> a({1, 1, 1}, {1.0f}), b({1, 1, 1}, {2.0f});
  const TensorBox<float> lse_a({1, 1}, {-3e38f}), lse_b({1, 1}, {3e38f});
  TensorBox<double> out({1, 1, 1}), lse({1, 1});
  const DLTensor* outs[] = {a.ptr(), b.ptr()};
  const DLTensor* lses[] = {lse_a.ptr(), lse_b.ptr()};
  merge_states_reference(out.get(), lse.ptr(), outs, lses);
  EXPECT_EQ(out(0, 0, 0), 2.0);
  EXPECT_EQ(lse(0, 0), static_cast<double>(3e38f));
}

TEST(MergeStatesReference, NanShows) {
  const TensorBox<float> a({1, 1, 1}, {1.0f});
  const TensorBox<float> lse_a({1, 1}, {NAN}), lse_b({1, 1}, {0.0f});
  TensorBox<double> out({1, 1, 1}), lse({1, 1});
  const DLTensor* outs[] = {a.ptr(), a.ptr()};
  const DLTensor* lses[] = {lse_b.ptr(), lse_a.ptr()};
  merge_states_reference(out.get(), lse.ptr(), outs, lses);
  EXPECT_TRUE(std::isnan(out(0, 0, 0)));
  EXPECT_TRUE(std::isnan(lse(0, 0)));
}

TEST(MergeStatesReference, RefusesWhatDoesNotFit) {
  const TensorBox<float> part({2, 1, 2}), lse({2, 1}), short_lse({1, 1});
  const TensorBox<double> out({2, 1, 2}), wide({2, 1, 4});
  const DLTensor* parts[] = {part.ptr()};
  const DLTensor* lses[] = {lse.ptr()};
  const DLTensor* short_lses[] = {short_lse.ptr()};
  const DLTensor* missing[] = {nullptr};
  expect_error("outs has 1", [&] { merge_states_reference(out.get(), nullptr, parts, {}); });
  expect_error("outs[0] is missing",
               [&] { merge_states_reference(out.get(), nullptr, missing, lses); });
  expect_error("outs[0] has shape [2, 1, 2]",
               [&] { merge_states_reference(wide.get(), nullptr, parts, lses); });
  expect_error("lses[0] has shape [1, 1]",
               [&] { merge_states_reference(out.get(), nullptr, parts, short_lses); });
}

}  // namespace
}  // namespace mpfa::internal
