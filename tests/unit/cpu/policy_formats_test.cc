// The arithmetic of the second product: formats of P and V under the running maximum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/policy.h"
#include "unit/cpu/policy_problem.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {
namespace {

TEST(PolicyFormats, FormatsOfPAndV) {
  const RandomProblem p(256, 256, 2, 1, 64);
  const auto error = [&](PFormat format, VFormat values) {
    Policy policy;
    policy.p = format;
    policy.v = values;
    return p.run(policy).mean_relative_l2();
  };
  const double bf16 = error(PFormat::kBf16, VFormat::kInput);
  const double e4m3 = error(PFormat::kE4m3, VFormat::kInput);
  const double nvfp4 = error(PFormat::kNvfp4TwoLevel, VFormat::kInput);
  // Half a unit in the last place at most, about 1/sqrt(12) of one on average: 8, 4 and 2 bits.
  EXPECT_GT(bf16, 5e-4);
  EXPECT_LT(bf16, 3e-3);
  EXPECT_GT(e4m3, 4e-3);
  EXPECT_LT(e4m3, 4e-2);
  EXPECT_GT(nvfp4, 4e-2);
  EXPECT_LT(nvfp4, 0.2);
  EXPECT_LT(error(PFormat::kFp32, VFormat::kE4m3), error(PFormat::kFp32, VFormat::kNvfp4Tokens));
}

// V's blocks of 16 run along the tokens: channels of any size, constant over the tokens, are exact.
TEST(PolicyFormats, Nvfp4ValuesAreBlockedAlongTokens) {
  RandomProblem p(70, 70, 1, 1, 64);
  for (int64_t t = 0; t < 70; ++t) {
    for (int64_t c = 0; c < 64; ++c) p.v(t, 0, c) = std::ldexp(6.0f, static_cast<int>(c % 8));
  }
  Policy policy;
  policy.v = VFormat::kNvfp4Tokens;
  EXPECT_LT(p.run(policy).worst_relative_l2(), 1e-6);
}

// Equal scores give P = 1 everywhere, which every format of P holds exactly once it is scaled.
TEST(PolicyFormats, EqualProbabilitiesAreExact) {
  RandomProblem p(50, 300, 1, 1, 64);
  std::fill(p.q.values().begin(), p.q.values().end(), 0.0f);
  for (const PFormat format :
       {PFormat::kFp32, PFormat::kBf16, PFormat::kE4m3, PFormat::kNvfp4TwoLevel}) {
    Policy policy;
    policy.p = format;
    EXPECT_LT(p.run(policy).worst_relative_l2(), 1e-6) << static_cast<int>(format);
  }
}

// One query whose scores are the first element of each key, in powers of two of P; v is 1 for the
// keys of score `counted`, else 0.
PolicyResult run_on_scores(const std::vector<float>& scores, float counted, PFormat format) {
  const auto tokens = static_cast<int64_t>(scores.size());
  TensorBox<float> q({1, 1, 64}), k({tokens, 1, 64}), v({tokens, 1, 64});
  q(0, 0, 0) = 1.0f;
  for (int64_t j = 0; j < tokens; ++j) {
    k(j, 0, 0) = scores[j];
    v(j, 0, 0) = scores[j] == counted ? 1.0f : 0.0f;
  }
  PolicyInputs inputs;
  inputs.softmax_scale = std::log(2.0f);
  inputs.keep_output = true;
  Policy policy;
  policy.p = format;
  return run_policy(policy, q.get(), k.get(), v.get(), inputs);
}

TEST(PolicyFormats, E4m3ProbabilitiesAreScaledBy448) {
  // 448 * 2^-12 is a normal e4m3 number; 2^-12 would round to 0.
  EXPECT_LT(run_on_scores({0.0f, -12.0f}, -12.0f, PFormat::kE4m3).worst_relative_l2(), 1e-5);
}

TEST(PolicyFormats, LastBlockComesFirst) {
  // The sink at key 0 makes all later keys 2^-20, below e4m3's range even after scaling; their own
  // block, taken before the sink's, holds them as 1.
  std::vector<float> scores(256, 0.0f);
  std::fill(scores.begin(), scores.begin() + 128, -100.0f);
  scores[0] = 20.0f;
  EXPECT_LT(run_on_scores(scores, 0.0f, PFormat::kE4m3).worst_relative_l2(), 1e-4);
  // The same keys behind the sink in its own block are lost.
  std::swap_ranges(scores.begin() + 1, scores.begin() + 128, scores.begin() + 128);
  std::fill(scores.begin() + 128, scores.end(), -100.0f);
  EXPECT_EQ(run_on_scores(scores, 0.0f, PFormat::kE4m3).worst_relative_l2(), 1.0);
}

TEST(PolicyFormats, RowSumsAreOfUnroundedP) {
  // P = 1 and 2^-1.5 (0.3536): e4m3 rounds 448 P = 158.4 to 160, the sum keeps 0.3536.
  const PolicyResult result = run_on_scores({0.0f, -1.5f}, -1.5f, PFormat::kE4m3);
  EXPECT_NEAR(result.output[0], 160.0 / 448.0 / (1.0 + std::exp2(-1.5)), 1e-6);
}

}  // namespace
}  // namespace mpfa::internal
