// The oracle against answers computed by hand (docs/spec.md, sections 2 and 3).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/reference.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One sequence, one head, d = 64, one page of 16, everything zero at first: K^ and V^ are 0.
struct HandCase {
  explicit HandCase(int32_t kv_len, int32_t q_len = 1, int64_t rank = 4)
      : q({q_len, 1, 64}),
        k_codes({1, 1, 16, 32}),
        k_scales({1, 1, 16, 4}),
        v({1, 1, 16, 64}),
        k_residual({1, 1, 16, rank}),
        delta_s({1, 1, 16}),
        k_first({1, 1, 64}),
        k_mean({1, 1, 64}),
        q_mean({1, 1, 64}),
        basis({1, 1, rank, 64}),
        p_scale({1, 1, rank}),
        k_scale({1, 1}, {1.0f}),
        v_scale({1, 1}, {1.0f}),
        table({1, 1}),
        lens({1}, {kv_len}),
        cu({2}, {0, q_len}),
        out({q_len, 1, 64}),
        lse({q_len, 1}) {
    for (float& x : p_scale.values()) x = 1.0f;
    params.softmax_scale = 1.0f;
    view.k_codes = k_codes.ptr();
    view.k_scales = k_scales.ptr();
    view.v = v.ptr();
    view.stats.k_mean = k_mean.ptr();
    view.stats.q_mean = q_mean.ptr();
    view.stats.residual_basis = basis.ptr();
    view.stats.residual_scale = p_scale.ptr();
    view.stats.k_scale = k_scale.ptr();
    view.stats.v_scale = v_scale.ptr();
  }
  HandCase(const HandCase&) = delete;

  void run() const {
    attention_reference(out.get(), lse.ptr(), q.get(), view, table.get(), lens.get(), cu.ptr(),
                        params);
  }

  TensorBox<float> q;
  TensorBox<uint8_t> k_codes;
  TensorBox<E4m3> k_scales, v, k_residual;
  TensorBox<Bf16> delta_s, k_first;
  TensorBox<float> k_mean, q_mean, basis, p_scale, k_scale, v_scale;
  TensorBox<int32_t> table, lens, cu;
  TensorBox<double> out, lse;
  AttentionParams params;
  KvCacheView view;
};

TEST(ReferenceByHand, TwoKeys) {
  HandCase c(2);
  // Key 0 is 2 in element 1 (high nibble of byte 0), key 1 is 0; values 4 and 8.
  c.k_codes(0, 0, 0, 0) = 0x40;
  c.k_scales(0, 0, 0, 0) = {0x38};  // 1
  c.v(0, 0, 0, 5) = {0x48};         // 4
  c.v(0, 0, 1, 5) = {0x50};         // 8
  c.q(0, 0, 1) = 0.5f;
  c.params.softmax_scale = std::log(3.0f);
  c.run();
  const double p = std::exp(static_cast<double>(std::log(3.0f)));  // 3, but for FP32's rounding
  EXPECT_NEAR(c.out(0, 0, 5), (p * 4 + 8) / (p + 1), 1e-14);
  EXPECT_NEAR(c.out(0, 0, 5), 5.0, 1e-6);
  EXPECT_NEAR(c.lse(0, 0), std::log(p + 1), 1e-14);
  EXPECT_EQ(c.out(0, 0, 4), 0.0);

  // A sink of logit 0 is one more key without a value.
  TensorBox<float> sinks({1}, {0.0f});
  c.params.sinks = sinks.ptr();
  c.run();
  EXPECT_NEAR(c.out(0, 0, 5), (p * 4 + 8) / (p + 2), 1e-14);
  EXPECT_NEAR(c.lse(0, 0), std::log(p + 2), 1e-14);
  sinks(0) = -INFINITY;
  c.run();
  EXPECT_NEAR(c.lse(0, 0), std::log(p + 1), 1e-14);
  sinks(0) = 1000.0f;  // leaves nothing for the keys, without overflow
  c.run();
  EXPECT_NEAR(c.out(0, 0, 5), 0.0, 1e-300);
  EXPECT_EQ(c.lse(0, 0), 1000.0);
}

// With one key, LSE is the score itself: each term by hand.
TEST(ReferenceByHand, TermsOfTheScore) {
  HandCase c(1);
  c.q(0, 0, 1) = 3.0f;
  c.q(0, 0, 20) = 5.0f;
  c.run();
  EXPECT_EQ(c.lse(0, 0), 0.0);

  c.k_codes(0, 0, 0, 10) = 0x0A;    // element 20: -1
  c.k_scales(0, 0, 0, 1) = {0x3A};  // 1.25
  c.run();
  EXPECT_EQ(c.lse(0, 0), -6.25);

  c.k_scale(0, 0) = 0.3f;  // the product is FP32's
  c.run();
  EXPECT_EQ(c.lse(0, 0), 5.0 * static_cast<double>(-1.25f * 0.3f));
  c.k_scale(0, 0) = 1.0f;

  c.k_mean(0, 0, 1) = 7.0f;  // rowbias 21
  c.run();
  EXPECT_EQ(c.lse(0, 0), 14.75);

  c.q_mean(0, 0, 20) = 4.0f;  // unused without delta_s
  c.run();
  EXPECT_EQ(c.lse(0, 0), 14.75);

  c.delta_s(0, 0, 0) = {0x4040};  // 3; q_eff is now (3, 1): -1.25 + 3 + 21
  c.view.delta_s = c.delta_s.ptr();
  c.run();
  EXPECT_EQ(c.lse(0, 0), 22.75);

  // Residual: U_2 = 2 e_20 + e_1, p = 0.5, p_scale = 4: (2 * 1 + 3) * 2 = 10.
  c.basis(0, 0, 2, 20) = 2.0f;
  c.basis(0, 0, 2, 1) = 1.0f;
  c.p_scale(0, 0, 2) = 4.0f;
  c.k_residual(0, 0, 0, 2) = {0x30};
  c.view.k_residual = c.k_residual.ptr();
  c.run();
  EXPECT_EQ(c.lse(0, 0), 32.75);

  c.k_first(0, 0, 20) = {0xC000};  // -2
  c.view.k_first = c.k_first.ptr();
  c.run();
  EXPECT_EQ(c.lse(0, 0), 30.75);

  // Softcap acts on the whole score, rowbias included, after the scale.
  c.params.softcap = 10.0f;
  c.params.softmax_scale = 0.5f;
  c.run();
  EXPECT_EQ(c.lse(0, 0), 10.0 * std::tanh(30.75 * 0.5 / 10.0));
}

TEST(ReferenceByHand, ValuesCarryTheirScale) {
  HandCase c(1);
  c.v(0, 0, 0, 7) = {0xB9};  // -1.125
  c.v_scale(0, 0) = 0.1f;
  c.run();
  EXPECT_EQ(c.out(0, 0, 7), -1.125 * static_cast<double>(0.1f));
}

// Equal scores: the output is the mean of the visible values; value j is j in element 0.
std::vector<double> visible_means(int32_t kv_len, int32_t q_len, const AttentionParams& params) {
  HandCase c(kv_len, q_len);
  const uint8_t codes[8] = {0x00, 0x38, 0x40, 0x44, 0x48, 0x4A, 0x4C, 0x4E};  // 0 to 7
  for (int j = 0; j < kv_len; ++j) c.v(0, 0, j, 0) = {codes[j]};
  c.params.causal = params.causal;
  c.params.window_left = params.window_left;
  c.params.sinks = params.sinks;
  for (double& x : c.out.values()) x = NAN;
  c.run();
  std::vector<double> means;
  for (int i = 0; i < q_len; ++i) {
    means.push_back(c.out(i, 0, 0));
    if (std::isinf(c.lse(i, 0))) {
      EXPECT_EQ(c.lse(i, 0), -kInfinity);
      for (int n = 0; n < 64; ++n) EXPECT_EQ(c.out(i, 0, n), 0.0);
      means.back() = -1;  // nothing visible
    }
  }
  return means;
}

TEST(ReferenceMasks, BottomRightCausal) {
  AttentionParams params;
  EXPECT_EQ(visible_means(4, 4, params), (std::vector<double>{0, 0.5, 1, 1.5}));
  EXPECT_EQ(visible_means(5, 2, params), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(visible_means(5, 1, params), (std::vector<double>{2}));
  // More queries than keys: the first see none.
  EXPECT_EQ(visible_means(2, 4, params), (std::vector<double>{-1, -1, 0, 0.5}));
  EXPECT_EQ(visible_means(0, 2, params), (std::vector<double>{-1, -1}));
}

TEST(ReferenceMasks, NotCausal) {
  AttentionParams params;
  params.causal = false;
  EXPECT_EQ(visible_means(3, 5, params), (std::vector<double>{1, 1, 1, 1, 1}));
  EXPECT_EQ(visible_means(5, 2, params), (std::vector<double>{2, 2}));
  EXPECT_EQ(visible_means(0, 1, params), (std::vector<double>{-1}));
}

TEST(ReferenceMasks, LeftWindow) {
  AttentionParams params;
  params.window_left = 0;  // the diagonal only
  EXPECT_EQ(visible_means(5, 3, params), (std::vector<double>{2, 3, 4}));
  params.window_left = 1;
  EXPECT_EQ(visible_means(5, 5, params), (std::vector<double>{0, 0.5, 1.5, 2.5, 3.5}));
  EXPECT_EQ(visible_means(3, 5, params), (std::vector<double>{-1, -1, 0, 0.5, 1.5}));
  params.window_left = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(visible_means(5, 2, params), (std::vector<double>{1.5, 2}));
  params.causal = false;
  params.window_left = 1;  // everything from one before the diagonal on
  EXPECT_EQ(visible_means(5, 3, params), (std::vector<double>{2.5, 3, 3.5}));
  EXPECT_EQ(visible_means(2, 4, params), (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
}

TEST(ReferenceMasks, EmptyRowsStayEmptyWithASink) {
  AttentionParams params;
  const TensorBox<float> sinks({1}, {2.0f});
  params.sinks = sinks.ptr();
  const std::vector<double> means = visible_means(2, 4, params);
  EXPECT_EQ(means[0], -1);
  EXPECT_EQ(means[1], -1);
  EXPECT_GT(means[3], 0);
  EXPECT_EQ(visible_means(0, 1, params), (std::vector<double>{-1}));
}

TEST(ReferenceByHand, HugeScoresGiveNoNan) {
  HandCase c(3);
  c.q(0, 0, 0) = 3e38f;
  for (int j = 0; j < 3; ++j) {
    c.k_scales(0, 0, j, 0) = {0x7E};                         // 448
    c.v(0, 0, j, 0) = {static_cast<uint8_t>(0x38 + 8 * j)};  // 1, 2, 4
  }
  c.k_codes(0, 0, 0, 0) = 0x0F;  // -6
  c.k_codes(0, 0, 1, 0) = 0x07;  // 6
  c.run();
  EXPECT_EQ(c.out(0, 0, 0), 2.0);
  EXPECT_EQ(c.lse(0, 0), 3e38f * 448.0 * 6.0);
}

}  // namespace
}  // namespace mpfa::internal
