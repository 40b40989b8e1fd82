#include <gtest/gtest.h>

#include <limits>

#include "io/safetensors.h"
#include "mpfa/quant.h"
#include "support/test_tensor.h"
#include "unit/formats/nvfp4_oracle.h"

namespace mpfa {
namespace {

using testing::kBF16;
using testing::kF32;
using testing::kF8;
using testing::kU8;
using testing::TestTensor;

// Every output of one call, in memory with gaps.
struct Quantized {
  Quantized(int64_t tokens, int64_t heads, int64_t d, int64_t rank = 8)
      : codes(TestTensor::with_gaps(kU8, {tokens, heads, d / 2})),
        scales(TestTensor::with_gaps(kF8, {tokens, heads, d / 16})),
        codes2(TestTensor::with_gaps(kU8, {tokens, heads, d / 2})),
        scales2(TestTensor::with_gaps(kF8, {tokens, heads, d / 16})),
        rowbias(TestTensor::with_gaps(kF32, {tokens, heads})),
        residual(TestTensor::with_gaps(kF32, {tokens, heads, rank})),
        first_key(TestTensor::with_gaps(kF32, {tokens, heads})) {}

  QuantizedQ out() {
    return {codes.ptr(),   scales.ptr(),   codes2.ptr(),   scales2.ptr(),
            rowbias.ptr(), residual.ptr(), first_key.ptr()};
  }
  std::vector<std::vector<std::byte>> bytes() const {
    return {codes.snapshot(),   scales.snapshot(),   codes2.snapshot(),   scales2.snapshot(),
            rowbias.snapshot(), residual.snapshot(), first_key.snapshot()};
  }

  TestTensor codes, scales, codes2, scales2, rowbias, residual, first_key;
};

// The row of x that the term leaves, and its expected codes compared with what was written.
std::vector<float> expect_term(const std::vector<float>& x, ScaleRule rule, TestTensor& codes,
                               TestTensor& scales, int64_t t, int64_t h) {
  std::vector<float> rest(x.size());
  for (size_t start = 0; start < x.size(); start += 16) {
    oracle::Block block;
    std::copy_n(x.begin() + static_cast<int64_t>(start), 16, block.begin());
    const oracle::QuantizedBlock q =
        rule == ScaleRule::kPlain ? oracle::quantize_plain(block) : oracle::quantize_search(block);
    const auto b = static_cast<int64_t>(start / 16);
    EXPECT_EQ(scales.at<uint8_t>(t, h, b), q.scale);
    const float s =
        q.scale == 0x7F ? std::nanf("") : static_cast<float>(oracle::e4m3_table().value(q.scale));
    for (size_t i = 0; i < 16; ++i) {
      const uint8_t pair = codes.at<uint8_t>(t, h, static_cast<int64_t>((start + i) / 2));
      EXPECT_EQ((pair >> (4 * (i % 2))) & 15, q.codes[i]) << t << " " << h << " " << start + i;
      const auto value = static_cast<float>(s * oracle::signed_e2m1_value(q.codes[i]));
      rest[start + i] = oracle::add_fp32(block[i], -value);
    }
  }
  return rest;
}

std::vector<float> row(const TestTensor& x, TestTensor::Shape index, int64_t d) {
  std::vector<float> values;
  index.push_back(0);
  for (; index.back() < d; ++index.back()) values.push_back(x.get(index));
  return values;
}

void expect_bits(float actual, float expected) {
  EXPECT_EQ(internal::float_bits(actual), internal::float_bits(expected))
      << actual << " " << expected;
}

// Statistics for two rows, and which sequence uses which.
struct Inputs {
  Inputs(DLDataType type, int64_t tokens, int64_t group, int64_t d)
      : q(TestTensor::heads_first(type, {tokens, 2 * group, d})),
        q_mean(TestTensor::with_gaps(kF32, {2, 2 * group, d})),
        k_mean(TestTensor::with_gaps(kF32, {2, 2, d})),
        basis(TestTensor::with_gaps(kF32, {2, 2, 8, d})),
        k_first(TestTensor::with_gaps(kBF16, {3, 2, d})) {
    q.fill_normal(1, 2, 0.5f);
    q_mean.fill_normal(2);
    k_mean.fill_normal(3);
    basis.fill_normal(4);
    k_first.fill_normal(5);
  }
  QuantizeQParams params(ScaleRule rule, bool centred) {
    QuantizeQParams p;
    p.scale_rule = rule;
    if (centred) p.q_mean = q_mean.ptr();
    p.k_mean = k_mean.ptr();
    p.residual_basis = basis.ptr();
    p.k_first = k_first.ptr();
    p.stats_index = stats_index.ptr();
    p.cu_seqlens_q = cu.ptr();
    return p;
  }

  TestTensor q, q_mean, k_mean, basis, k_first;
  TestTensor stats_index = testing::int_tensor({1, 0, 1});
  TestTensor cu = testing::int_tensor({0, 4, 4, 9});
};

void expect_token(Inputs& in, Quantized& out, ScaleRule rule, bool centred, int64_t t, int64_t h,
                  int64_t sequence) {
  const int64_t d = in.q.shape()[2];
  const int64_t stats = in.stats_index.at<int32_t>(sequence);
  const int64_t kv_head = h / (in.q.shape()[1] / 2);
  const std::vector<float> q = row(in.q, {t, h}, d);
  std::vector<float> x = q;
  for (int64_t i = 0; centred && i < d; ++i) {
    x[static_cast<size_t>(i)] =
        oracle::add_fp32(x[static_cast<size_t>(i)], -in.q_mean.get({stats, h, i}));
  }
  const std::vector<float> rest = expect_term(x, rule, out.codes, out.scales, t, h);
  expect_term(rest, rule, out.codes2, out.scales2, t, h);
  expect_bits(out.rowbias.get({t, h}), testing::dot_oracle(q, row(in.k_mean, {stats, kv_head}, d)));
  for (int64_t j = 0; j < 8; ++j) {
    expect_bits(out.residual.get({t, h, j}),
                testing::dot_oracle(row(in.basis, {stats, kv_head, j}, d), x));
  }
  expect_bits(out.first_key.get({t, h}),
              testing::dot_oracle(x, row(in.k_first, {sequence, kv_head}, d)));
}

class QuantizeQTest : public ::testing::TestWithParam<DLDataType> {};

INSTANTIATE_TEST_SUITE_P(Types, QuantizeQTest, ::testing::Values(kBF16, testing::kF16, kF32),
                         [](const auto& info) { return internal::dtype_string(info.param); });

TEST_P(QuantizeQTest, MatchesAnIndependentRebuild) {
  for (const int64_t d : {64, 128}) {
    for (const int64_t group : {1, 3, 5}) {
      for (const ScaleRule rule : {ScaleRule::kPlain, ScaleRule::kSearch}) {
        const bool centred = (group + d / 64) % 2 == 0;
        Inputs in(GetParam(), 11, group, d);
        const std::vector<std::byte> before = in.q.snapshot();
        Quantized out(11, 2 * group, d);
        quantize_q(in.q.dl(), out.out(), in.params(rule, centred));
        EXPECT_EQ(in.q.snapshot(), before);
        for (int64_t t = 0; t < 9; ++t) {
          for (int64_t h = 0; h < 2 * group; ++h) {
            expect_token(in, out, rule, centred, t, h, t < 4 ? 0 : 2);
          }
        }
      }
    }
  }
}

TEST_P(QuantizeQTest, SameBytesForAnyThreadCount) {
  Inputs in(GetParam(), 200, 4, 128);
  in.cu = testing::int_tensor({0, 90, 91, 200});
  Quantized expected(200, 8, 128);
  quantize_q(in.q.dl(), expected.out(), in.params(ScaleRule::kSearch, true));
  testing::for_thread_counts([&] {
    Quantized out(200, 8, 128);
    quantize_q(in.q.dl(), out.out(), in.params(ScaleRule::kSearch, true));
    EXPECT_EQ(out.bytes(), expected.bytes());
  });
}

TEST(QuantizeQRaggedTest, TokensOfNoSequenceAreNeitherReadNorWritten) {
  Inputs in(kBF16, 11, 2, 64);
  Quantized expected(11, 4, 64);
  quantize_q(in.q.dl(), expected.out(), in.params(ScaleRule::kSearch, true));
  for (int64_t t = 9; t < 11; ++t) {
    for (int64_t h = 0; h < 4; ++h) in.q.set({t, h, 0}, std::nanf(""));
  }
  Quantized out(11, 4, 64);
  quantize_q(in.q.dl(), out.out(), in.params(ScaleRule::kSearch, true));
  EXPECT_EQ(out.bytes(), expected.bytes());
  for (int64_t t = 9; t < 11; ++t) {
    for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(out.codes.at<uint8_t>(t, 3, i), 0xFF);
    EXPECT_TRUE(std::isnan(out.rowbias.get({t, 3})));
  }
}

// Without cu_seqlens_q all tokens are of the only sequence, whose row of statistics may be any.
TEST(QuantizeQRaggedTest, OneSequenceUsesItsOwnRow) {
  Inputs in(kBF16, 9, 2, 64);
  in.k_first = TestTensor(kBF16, {1, 2, 64});
  in.k_first.fill_normal(9);
  Quantized out(9, 4, 64);
  QuantizeQParams params = in.params(ScaleRule::kSearch, true);
  params.cu_seqlens_q = nullptr;
  in.stats_index = testing::int_tensor({1});
  params.stats_index = in.stats_index.ptr();
  quantize_q(in.q.dl(), out.out(), params);
  for (int64_t t = 0; t < 9; ++t) expect_token(in, out, ScaleRule::kSearch, true, t, 3, 0);
  params.stats_index = nullptr;
  quantize_q(in.q.dl(), out.out(), params);
  in.stats_index = testing::int_tensor({0, 0, 0});
  for (int64_t t = 0; t < 9; ++t) expect_token(in, out, ScaleRule::kSearch, true, t, 3, 0);
}

TEST(QuantizeQSizesTest, AnyMultipleOf16WithoutDotProducts) {
  for (const int64_t d : {16, 48, 80, 256}) {
    TestTensor q(kBF16, {5, 3, d});
    q.fill_normal(1);
    Quantized out(5, 3, d);
    QuantizedQ written = out.out();
    written.rowbias = written.residual = written.first_key = nullptr;
    quantize_q(q.dl(), written);
    for (int64_t t = 0; t < 5; ++t) {
      const std::vector<float> x = row(q, {t, 2}, d);
      const std::vector<float> rest =
          expect_term(x, ScaleRule::kSearch, out.codes, out.scales, t, 2);
      expect_term(rest, ScaleRule::kSearch, out.codes2, out.scales2, t, 2);
    }
  }
}

TEST(QuantizeQSizesTest, NoTokens) {
  TestTensor q(kBF16, {0, 3, 64});
  Quantized out(0, 3, 64);
  QuantizedQ written = out.out();
  written.rowbias = written.residual = written.first_key = nullptr;
  EXPECT_NO_THROW(quantize_q(q.dl(), written));
}

TEST(QuantizeQExtremeTest, ZerosNanAndInfinity) {
  TestTensor q(kF32, {4, 1, 64});
  q.fill([](const TestTensor::Shape& at) { return at[0] == 0 ? 0.0f : static_cast<float>(at[2]); });
  q.set({1, 0, 20}, std::nanf(""));
  q.set({2, 0, 20}, -std::numeric_limits<float>::infinity());
  q.set({3, 0, 20}, 1e6f);
  Quantized out(4, 1, 64);
  quantize_q(q.dl(), {out.codes.ptr(), out.scales.ptr(), out.codes2.ptr(), out.scales2.ptr()});
  for (int64_t t = 0; t < 4; ++t) {
    const std::vector<float> rest =
        expect_term(row(q, {t, 0}, 64), ScaleRule::kSearch, out.codes, out.scales, t, 0);
    expect_term(rest, ScaleRule::kSearch, out.codes2, out.scales2, t, 0);
  }
  EXPECT_EQ(out.scales.at<uint8_t>(0, 0, 1), 0);  // a zero block
  EXPECT_EQ(out.codes.at<uint8_t>(0, 0, 8), 0);
  EXPECT_EQ(out.scales.at<uint8_t>(1, 0, 1), 0x7F);  // NaN shows
  EXPECT_EQ(out.scales2.at<uint8_t>(1, 0, 1), 0x7F);
  EXPECT_NE(out.scales.at<uint8_t>(1, 0, 0), 0x7F);  // in its own block only
  EXPECT_LE(out.scales.at<uint8_t>(2, 0, 1), 0x7E);  // infinity saturates
  EXPECT_EQ(out.codes.at<uint8_t>(2, 0, 10) & 15, 15);
}

double value(TestTensor& codes, TestTensor& scales, int64_t t, int64_t h, int64_t i) {
  const int code = (codes.at<uint8_t>(t, h, i / 2) >> (4 * (i % 2))) & 15;
  return oracle::e4m3_table().value(scales.at<uint8_t>(t, h, i / 16)) *
         oracle::signed_e2m1_value(code);
}

// docs/spec.md, section 2: one NVFP4 term leaves about 8% of a real query, two leave below 1%.
TEST(QuantizeQRealDataTest, TwoTermsAreFarBetterThanOne) {
  const auto file = internal::SafetensorsReader::open(MPFA_DATA_DIR "/smollm2_qkv_512.safetensors");
  for (const std::string name : {"layer00.q", "layer15.q", "layer29.q"}) {
    DLTensor q = file.view(name);
    int64_t shape[3] = {512, 9, 64};
    int64_t strides[3] = {64, 64 * 512, 1};
    q.shape = shape;
    q.strides = strides;
    Quantized out(512, 9, 64);
    quantize_q(q, {out.codes.ptr(), out.scales.ptr(), out.codes2.ptr(), out.scales2.ptr()});
    const auto queries = internal::Tensor<Bf16, 3>::from(q, "q");
    double norm = 0;
    double one = 0;
    double two = 0;
    out.codes.for_each([&](const TestTensor::Shape& at) {
      for (int64_t i = 2 * at[2]; i < 2 * at[2] + 2; ++i) {
        const auto x = static_cast<double>(bf16_to_float(queries.at(at[0], at[1])[i]));
        const double first = value(out.codes, out.scales, at[0], at[1], i);
        const double second = value(out.codes2, out.scales2, at[0], at[1], i);
        norm += x * x;
        one += (x - first) * (x - first);
        two += (x - first - second) * (x - first - second);
      }
    });
    EXPECT_GT(std::sqrt(one / norm), 0.05) << name;
    EXPECT_LT(std::sqrt(one / norm), 0.12) << name;
    EXPECT_LT(std::sqrt(two / norm), 0.01) << name;
  }
}

}  // namespace
}  // namespace mpfa
