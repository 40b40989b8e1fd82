// The scalar reference against docs/spec.md by other means: double precision, brute force over all
// codes, and values worked out by hand.
#include "cache/append_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mpfa::internal {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One token with everything on; the members are its inputs and, after run(), its bytes.
struct Token {
  Token(int64_t d, int64_t rank, int64_t group)
      : config{static_cast<int>(d), static_cast<int>(rank), static_cast<int>(group),
               ScaleRule::kSearch} {
    k.assign(d, 0.0f);
    v.assign(d, 0.0f);
    k_mean.assign(d, 0.0f);
    q_mean.assign(d * group, 0.0f);
    basis.assign(d * rank, 0.0f);
    p_scale.assign(rank, 1.0f);
    codes.assign(d / 2, 0xEE);
    scales.assign(d / 16, {0xEE});
    v_out.assign(d, {0xEE});
    delta_s.assign(group, {0xEEEE});
    residual.assign(rank, {0xEE});
    first.assign(d, {0xEEEE});
  }

  void run() {
    AppendStats stats;
    stats.k_mean = k_mean.data();
    stats.q_mean = q_mean.data();
    stats.q_mean_stride = config.head_dim;
    stats.residual_basis = basis.data();
    stats.residual_basis_stride = config.head_dim;
    stats.residual_scale = p_scale.data();
    stats.k_scale = k_scale;
    stats.v_scale = v_scale;
    const AppendTargets out = {codes.data(),    scales.data(), v_out.data(), delta_s.data(), 1,
                               residual.data(), first.data()};
    append_token_reference(config, stats, k.data(), v.data(), out);
  }

  double quantized(int i) const {
    const uint8_t code = (codes[i / 2] >> (4 * (i % 2))) & 0xF;
    return double{e4m3_to_float(scales[i / 16])} * e2m1_to_float(code) * k_scale;
  }
  double residual_value(int j) const { return double{p_scale[j]} * e4m3_to_float(residual[j]); }

  AppendConfig config;
  std::vector<float> k, v, k_mean, q_mean, basis, p_scale;
  float k_scale = 1.0f;
  float v_scale = 1.0f;
  std::vector<uint8_t> codes;
  std::vector<E4m3> scales, v_out, residual;
  std::vector<Bf16> delta_s, first;
};

Token random_token(uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  Token token(seed % 2 == 0 ? 64 : 128, 8, 3);
  for (auto* values : {&token.k, &token.v, &token.k_mean, &token.q_mean, &token.basis}) {
    for (float& x : *values) x = normal(rng);
  }
  for (float& x : token.basis) x *= 0.1f;
  for (float& x : token.p_scale) x = 0.004f;
  token.k_scale = std::exp2(normal(rng));
  token.v_scale = std::exp2(normal(rng));
  return token;
}

// Distance of x to the nearest e4m3 value.
double distance_to_e4m3(double x) {
  double best = kInf;
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float({static_cast<uint8_t>(code)});
    if (!std::isnan(value)) best = std::min(best, std::abs(value - x));
  }
  return best;
}

TEST(AppendReference, ValuesAreTheNearestE4m3) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Token token = random_token(seed);
    token.run();
    for (int i = 0; i < token.config.head_dim; ++i) {
      const float x = token.v[i] / token.v_scale;
      EXPECT_EQ(std::abs(e4m3_to_float(token.v_out[i]) - double{x}), distance_to_e4m3(x)) << x;
    }
  }
}

TEST(AppendReference, CompensationsAreWhatTheSpecSays) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Token token = random_token(seed);
    token.run();
    const int d = token.config.head_dim;
    std::vector<double> error(d);
    for (int i = 0; i < d; ++i) {
      const double centred = double{token.k[i]} - token.k_mean[i];
      error[i] = centred - token.quantized(i);
      // Half the widest gap of e2m1, and a little for the search's smaller scales.
      const double scale = double{e4m3_to_float(token.scales[i / 16])} * token.k_scale;
      EXPECT_LE(std::abs(error[i]), std::max(1.0 * scale, 0.35 * std::abs(centred)) + 1e-6);
    }
    for (int g = 0; g < 3; ++g) {
      double want = 0;
      for (int i = 0; i < d; ++i) {
        want += double{token.q_mean[g * d + i]} * (double{token.k[i]} - token.k_mean[i]);
      }
      EXPECT_NEAR(bf16_to_float(token.delta_s[g]), want, std::abs(want) / 256 + 1e-4);
    }
    for (int j = 0; j < 8; ++j) {
      double want = 0;
      for (int i = 0; i < d; ++i) want += token.basis[j * d + i] * error[i];
      const double units = want / token.p_scale[j];
      EXPECT_NEAR(e4m3_to_float(token.residual[j]), units, distance_to_e4m3(units) + 1e-3);
    }
    // K^, the residual and the first key together give the centred key back.
    for (int i = 0; i < d; ++i) {
      double left = error[i];
      for (int j = 0; j < 8; ++j) left -= token.basis[j * d + i] * token.residual_value(j);
      EXPECT_NEAR(bf16_to_float(token.first[i]), left, std::abs(left) / 256 + 1e-6);
    }
  }
}

TEST(AppendReference, ExactKeyByHand) {
  Token token(64, 4, 1);
  token.config.scale_rule = ScaleRule::kPlain;  // the search would trade this error for others
  const float grid[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (int i = 0; i < 64; ++i) {
    token.k_mean[i] = 0.25f;
    token.k[i] = grid[i % 16] + 0.25f;
    token.q_mean[i] = 1.0f;
    token.basis[i] = 1.0f;
  }
  token.k[0] = 5.25f;  // 5 is a tie of e2m1: 4, the even code, and an error of 1
  token.run();
  for (int64_t b = 0; b < 4; ++b) {
    EXPECT_EQ(token.scales[b].bits, 0x38);  // 1.0
    const std::vector<uint8_t> want = {0x10, 0x32, 0x54, 0x76, 0x90, 0xBA, 0xDC, 0xFE};
    const std::vector<uint8_t> got(token.codes.begin() + 8 * b, token.codes.begin() + 8 * b + 8);
    if (b > 0) {
      EXPECT_EQ(got, want);
    } else {
      EXPECT_EQ(got[0], 0x16);
    }
  }
  EXPECT_EQ(bf16_to_float(token.delta_s[0]), 5.0f);
  EXPECT_EQ(e4m3_to_float(token.residual[0]), 1.0f);
  EXPECT_EQ(e4m3_to_float(token.residual[1]), 0.0f);
  EXPECT_EQ(bf16_to_float(token.first[0]), 0.0f);   // 1 - 1 * 1
  EXPECT_EQ(bf16_to_float(token.first[5]), -1.0f);  // 0 - 1 * 1
}

// In token order the ones would be lost beside 2^30; by halves the large terms cancel first.
TEST(AppendReference, DotProductsAreSummedByHalves) {
  Token token(64, 4, 1);
  std::fill(token.k.begin(), token.k.end(), 1.0f);
  std::fill(token.q_mean.begin(), token.q_mean.end(), 1.0f);
  token.q_mean[0] = 0x1p30f;
  token.q_mean[32] = -0x1p30f;
  token.run();
  EXPECT_EQ(bf16_to_float(token.delta_s[0]), 62.0f);
  // Elsewhere they meet too late: element 1 is folded onto element 0 last.
  token.q_mean[32] = 1.0f;
  token.q_mean[1] = -0x1p30f;
  token.run();
  EXPECT_EQ(bf16_to_float(token.delta_s[0]), 0.0f);
}

TEST(AppendReference, ZeroKeys) {
  Token token(128, 16, 2);
  token.run();
  EXPECT_EQ(token.codes, std::vector<uint8_t>(64, 0));
  EXPECT_EQ(token.scales, std::vector<E4m3>(8, E4m3{0}));
  EXPECT_EQ(token.v_out, std::vector<E4m3>(128, E4m3{0}));
  EXPECT_EQ(token.delta_s, std::vector<Bf16>(2, Bf16{0}));
  EXPECT_EQ(token.residual, std::vector<E4m3>(16, E4m3{0}));
  EXPECT_EQ(token.first, std::vector<Bf16>(128, Bf16{0}));
}

TEST(AppendReference, InfinityCountsAsItsSaturatedValue) {
  Token token = random_token(2);
  token.k[3] = kInf;
  token.k[20] = -kInf;
  token.v[0] = -kInf;
  token.run();
  EXPECT_EQ(token.v_out[0].bits, 0xFE);
  // Every candidate's error is infinite, so the first of the search, 416, stands.
  EXPECT_EQ(token.scales[0].bits, 0x7D);
  EXPECT_EQ(token.codes[1] >> 4, 0x7);
  EXPECT_EQ(token.codes[10] & 0xF, 0xF);
  EXPECT_EQ(token.first[3].bits & 0x8000, bf16_to_float(token.first[3]) < 0 ? 0x8000 : 0);
  for (Bf16 x : token.delta_s) EXPECT_TRUE(std::isfinite(bf16_to_float(x)));
  for (E4m3 x : token.residual) EXPECT_NE(x.bits & 0x7F, kE4m3NanCode);
  double want = 0;
  for (int i = 0; i < 64; ++i) {
    const double centred =
        std::isinf(token.k[i]) ? token.quantized(i) : double{token.k[i]} - token.k_mean[i];
    want += token.q_mean[i] * centred;
  }
  EXPECT_NEAR(bf16_to_float(token.delta_s[0]), want, std::abs(want) / 256 + 1e-3);
}

TEST(AppendReference, NanShowsAndIsAlwaysThePositiveOne) {
  for (float nan : {kNan, -kNan}) {
    Token token = random_token(4);
    token.k[17] = nan;
    token.v[5] = nan;
    token.run();
    EXPECT_EQ(token.v_out[5].bits, kE4m3NanCode);
    EXPECT_EQ(token.scales[1].bits, kE4m3NanCode);
    EXPECT_NE(token.scales[0].bits, kE4m3NanCode);
    for (int i = 8; i < 16; ++i) EXPECT_EQ(token.codes[i], 0x77);
    for (Bf16 x : token.delta_s) EXPECT_EQ(x.bits, 0x7FC0);
    for (E4m3 x : token.residual) EXPECT_EQ(x.bits, kE4m3NanCode);
    for (Bf16 x : token.first) EXPECT_EQ(x.bits, 0x7FC0);
  }
}

// docs/spec.md, section 6: the infinite element's error is 0, its K^ is the block's NaN.
TEST(AppendReference, InfinityInANanBlock) {
  Token token = random_token(6);
  token.k[17] = kNan;
  token.k[20] = kInf;
  token.config.residual_rank = 0;  // k_first is then the error itself
  token.run();
  EXPECT_EQ(token.scales[1].bits, kE4m3NanCode);
  EXPECT_EQ(token.first[20].bits, 0);
  EXPECT_EQ(token.first[17].bits, 0x7FC0);
  EXPECT_EQ(token.first[18].bits, 0x7FC0);
  EXPECT_EQ(token.delta_s[0].bits, 0x7FC0);
}

}  // namespace
}  // namespace mpfa::internal
