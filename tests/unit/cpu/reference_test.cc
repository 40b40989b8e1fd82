// The oracle against answers computed by hand and against attention written from its definition
// over the keys that the cache stands for (docs/spec.md, sections 2 and 3).
#include "cpu/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "mpfa/check.h"
#include "unit/cpu/paged_case.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Output {
  TensorBox<double> out;
  TensorBox<double> lse;
};

Output run(const PagedCase& c, const AttentionParams& params = {}) {
  Output result{TensorBox<double>({c.total_q(), c.config().num_q_heads, c.config().head_dim}),
                TensorBox<double>({c.total_q(), c.config().num_q_heads})};
  attention_reference(result.out.get(), result.lse.ptr(), c.q.get(), c.view(), c.block_table.get(),
                      c.seq_lens.get(), c.cu_seqlens_q.ptr(), params);
  return result;
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance = 1e-11) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < actual.size(); ++n) {
    if (std::isinf(expected[n])) {
      ASSERT_EQ(actual[n], expected[n]) << "element " << n;
    } else {
      ASSERT_NEAR(actual[n], expected[n], tolerance * (1.0 + std::abs(expected[n])))
          << "element " << n;
    }
  }
}

void expect_definition(const PagedCase& c, const AttentionParams& params) {
  const Output actual = run(c, params);
  const ExpectedAttention expected = expected_attention(c, params);
  expect_near(actual.out.values(), expected.out);
  expect_near(actual.lse.values(), expected.lse);
}

// ---- By hand
// --------------------------------------------------------------------------------------

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

  void run() {
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

// ---- Against the definition
// -------------------------------------------------------------------------

// (residual rank, delta_s, first key, head_dim)
using Compensation = std::tuple<int64_t, bool, bool, int64_t>;

class ReferenceSweep : public ::testing::TestWithParam<Compensation> {
 protected:
  PagedCaseConfig config() const {
    PagedCaseConfig c;
    std::tie(c.residual_rank, c.delta_s, c.first_key, c.head_dim) = GetParam();
    c.num_q_heads = 6;
    c.num_kv_heads = 2;
    c.kv_lens = {37, 1, 0, 16, 50};
    c.q_lens = {37, 1, 3, 20, 2};
    c.num_stats = 3;
    return c;
  }
};

TEST_P(ReferenceSweep, RaggedBatchCausal) { expect_definition(PagedCase(config()), {}); }

TEST_P(ReferenceSweep, EverythingAtOnce) {
  for (const int64_t page_size : {16, 32, 64, 128}) {
    PagedCaseConfig c = config();
    c.page_size = page_size;
    c.scales = true;
    c.seed = static_cast<unsigned>(page_size);
    const TensorBox<float> sinks({6}, {0.5f, -3.0f, 8.0f, -INFINITY, 0.0f, 2.0f});
    AttentionParams params;
    params.sinks = sinks.ptr();
    params.softcap = 5.0f;
    params.window_left = 20;
    params.softmax_scale = 0.11f;
    expect_definition(PagedCase(c), params);
    params.causal = false;
    expect_definition(PagedCase(c), params);
  }
}

INSTANTIATE_TEST_SUITE_P(Compensations, ReferenceSweep,
                         ::testing::Combine(::testing::Values(0, 4, 8, 16), ::testing::Bool(),
                                            ::testing::Bool(), ::testing::Values(64, 128)));

TEST(Reference, Groups) {
  for (const int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    PagedCaseConfig c;
    c.num_kv_heads = group == 16 ? 1 : 2;
    c.num_q_heads = group * c.num_kv_heads;
    c.kv_lens = {21, 5};
    c.q_lens = {4, 1};
    c.delta_s = true;
    c.residual_rank = 4;
    c.first_key = true;
    SCOPED_TRACE(group);
    expect_definition(PagedCase(c), {});
  }
}

// LSE does not know the means: two caches of the same keys, centred differently.
TEST(Reference, LseIsThatOfTheUncentredKeys) {
  PagedCaseConfig config;
  config.kv_lens = {9};
  config.q_lens = {3};
  const PagedCase centred(config);
  const ExpectedAttention expected = expected_attention(centred, {});
  expect_near(run(centred).lse.values(), expected.lse);
  // Without its mean the same cache has another LSE: the test can fail.
  PagedCase other = centred;
  for (float& x : other.k_mean.values()) x = 0.0f;
  const Output without = run(other);
  EXPECT_GT(std::abs(without.lse(0, 0) - expected.lse[0]), 1e-3);
  expect_near(without.out.values(), expected.out);  // softmax drops rowbias
}

TEST(Reference, DecodeWithoutCuSeqlens) {
  PagedCaseConfig config;
  config.kv_lens = {33, 7, 0};
  config.q_lens = {1, 1, 1};
  config.first_key = true;
  const PagedCase c(config);
  Output result{TensorBox<double>({3, 2, 64}), TensorBox<double>({3, 2})};
  attention_reference(result.out.get(), result.lse.ptr(), c.q.get(), c.view(), c.block_table.get(),
                      c.seq_lens.get(), nullptr);
  const Output with = run(c);
  EXPECT_EQ(result.out.values(), with.out.values());
  EXPECT_EQ(result.lse.values(), with.lse.values());
}

// Garbage of any kind in memory that no token owns changes no bit.
TEST(Reference, BytesThatNoTokenOwnsAreNotRead) {
  PagedCaseConfig config;
  config.kv_lens = {19, 3};
  config.q_lens = {19, 2};
  config.residual_rank = 8;
  config.delta_s = true;
  config.first_key = true;
  const PagedCase with_nan(config);
  PagedCase with_zeros = with_nan;
  const auto zero_e4m3 = [](auto& box) {
    for (E4m3& x : box.values()) x = x.bits == 0x7F ? E4m3{0} : x;
  };
  zero_e4m3(with_zeros.k_scales);
  zero_e4m3(with_zeros.v);
  zero_e4m3(with_zeros.k_residual);
  for (auto* box : {&with_zeros.delta_s, &with_zeros.k_first}) {
    for (Bf16& x : box->values()) x = x.bits == 0x7FC1 ? Bf16{0} : x;
  }
  ASSERT_NE(with_zeros.k_first.values(), with_nan.k_first.values());
  EXPECT_EQ(run(with_nan).out.values(), run(with_zeros).out.values());
  EXPECT_EQ(run(with_nan).lse.values(), run(with_zeros).lse.values());
}

// Only a sequence's token 0 has a first-key term; a window that hides it hides the term.
TEST(Reference, FirstKeyActsOnTokenZeroAlone) {
  PagedCaseConfig config;
  config.kv_lens = {34};
  config.q_lens = {34};
  config.first_key = true;
  const PagedCase c(config);
  PagedCase changed = c;
  const int64_t first_page = c.block_table(0, 0);
  for (int64_t n = 0; n < 64; ++n) changed.k_first(first_page, 0, n) = {0x42C8};  // 100
  AttentionParams params;
  params.window_left = 3;
  const Output a = run(c, params), b = run(changed, params);
  for (int64_t i = 0; i < 34; ++i) {
    EXPECT_EQ(a.lse(i, 0) != b.lse(i, 0), i <= 3) << i;
  }
}

TEST(Reference, RowsPastTheLastSequenceAreLeftAlone) {
  PagedCaseConfig config;
  config.kv_lens = {5, 4};
  config.q_lens = {2, 0};
  const PagedCase c(config);
  TensorBox<float> q({4, 2, 64});
  TensorBox<double> out({4, 2, 64}), lse({4, 2});
  for (double& x : out.values()) x = 123.0;
  for (double& x : lse.values()) x = 123.0;
  attention_reference(out.get(), lse.ptr(), q.get(), c.view(), c.block_table.get(),
                      c.seq_lens.get(), c.cu_seqlens_q.ptr());
  EXPECT_NE(out(1, 1, 0), 123.0);
  for (int64_t i = 2; i < 4; ++i) {
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_EQ(lse(i, h), 123.0);
      EXPECT_EQ(out(i, h, 63), 123.0);
    }
  }
}

template <typename T>
void expect_rounded(T (*round)(float), double (*widen)(T)) {
  PagedCaseConfig config;
  config.first_key = true;
  const PagedCase c(config);
  // q in the type under test, too: its values are multiples of 1/64 below 2, exact in all.
  TensorBox<T> q({40, 2, 64}), out({40, 2, 64});
  for (size_t n = 0; n < q.values().size(); ++n) q.values()[n] = round(c.q.values()[n]);
  // Strided LSE in FP32: the transpose of [Hq, total_q].
  TensorBox<float> lse({2, 40});
  DLTensor transposed = lse.get();
  int64_t shape[2] = {40, 2};
  int64_t strides[2] = {1, 40};
  transposed.shape = shape;
  transposed.strides = strides;
  attention_reference(out.get(), &transposed, q.get(), c.view(), c.block_table.get(),
                      c.seq_lens.get(), c.cu_seqlens_q.ptr());
  const Output exact = run(c);
  for (size_t n = 0; n < out.values().size(); ++n) {
    const T expected = round(static_cast<float>(exact.out.values()[n]));
    ASSERT_EQ(widen(out.values()[n]), widen(expected));
  }
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(lse(1, i), static_cast<float>(exact.lse(i, 1)));
  }
}

TEST(Reference, OtherTypes) {
  expect_rounded<float>([](float x) { return x; }, [](float x) { return double{x}; });
  expect_rounded<Bf16>(bf16_from_float, [](Bf16 x) { return double{bf16_to_float(x)}; });
  expect_rounded<Fp16>(fp16_from_float, [](Fp16 x) { return double{fp16_to_float(x)}; });
}

TEST(Reference, HugeScoresGiveNoNan) {
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

template <typename Fn>
void expect_error(const char* text, const Fn& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error with " << text;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Reference, RefusesWhatDoesNotFit) {
  PagedCase c{PagedCaseConfig{}};
  TensorBox<double> out({40, 2, 64}), lse({40, 2});
  const auto attend = [&](const DLTensor& o, const DLTensor* l) {
    attention_reference(o, l, c.q.get(), c.view(), c.block_table.get(), c.seq_lens.get(),
                        c.cu_seqlens_q.ptr());
  };
  expect_error("out has shape [40, 2, 32]", [&] {
    attend(TensorBox<double>({40, 2, 32}).get(), nullptr);
  });
  expect_error("lse has shape [40, 1]", [&] {
    const TensorBox<double> bad({40, 1});
    attend(out.get(), bad.ptr());
  });
  expect_error("lse has type bfloat16", [&] {
    const TensorBox<Bf16> bad({40, 2});
    attend(out.get(), bad.ptr());
  });
  expect_error("out has type int32", [&] {
    attend(TensorBox<int32_t>({40, 2, 64}).get(), nullptr);
  });
  const int32_t page = c.block_table(0, 2);
  c.block_table(0, 2) = static_cast<int32_t>(c.k_codes.size(0));
  expect_error("block_table[0, 2]", [&] { attend(out.get(), lse.ptr()); });
  c.block_table(0, 2) = page;
  c.seq_lens(0) = 65;
  expect_error("seq_lens[0] = 65", [&] { attend(out.get(), lse.ptr()); });
  // Nothing was written.
  for (const double x : out.values()) ASSERT_EQ(x, 0.0);
}

// ---- Merging
// ----------------------------------------------------------------------------------------

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
