// The oracle against attention written from its definition over the keys that the cache stands for
// (docs/spec.md, sections 2 and 3).
#include "cpu/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "unit/cpu/reference_cases.h"

namespace mpfa::internal {
namespace {

void expect_definition(const PagedCase& c, const AttentionParams& params) {
  const Output actual = run(c, params);
  const ExpectedAttention expected = expected_attention(c, params);
  expect_near(actual.out.values(), expected.out);
  expect_near(actual.lse.values(), expected.lse);
}

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

}  // namespace
}  // namespace mpfa::internal
