// Properties of the emulated precision assignments, on small random problems, that do not depend on
// how the emulation is written.
#include "cpu/policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cpu/reference.h"
#include "mpfa/cache.h"
#include "mpfa/quant.h"
#include "unit/cpu/expect_error.h"
#include "unit/cpu/policy_problem.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {
namespace {

// Straight from the definition: long double, no maximum subtracted.
std::vector<double> plain_attention(const RandomProblem& p, bool causal, long double scale) {
  const int64_t rows = p.q.size(0), hq = p.q.size(1), d = p.q.size(2);
  const int64_t tokens = p.k.size(0), hkv = p.k.size(1);
  std::vector<double> out;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t h = 0; h < hq; ++h) {
      const int64_t g = h / (hq / hkv);
      std::vector<long double> sum(d, 0.0L);
      long double l = 0.0L;
      for (int64_t j = 0; j < tokens; ++j) {
        if (causal && j > i + tokens - rows) continue;
        long double s = 0.0L;
        for (int64_t c = 0; c < d; ++c) {
          s += static_cast<long double>(p.q(i, h, c)) * p.k(j, g, c);
        }
        const long double w = std::exp(scale * s);
        l += w;
        for (int64_t c = 0; c < d; ++c) sum[c] += w * p.v(j, g, c);
      }
      for (const long double x : sum) out.push_back(static_cast<double>(x / l));
    }
  }
  return out;
}

TEST(RunPolicy, ReferenceIsAttention) {
  for (const bool causal : {true, false}) {
    const RandomProblem p(150, 300, 6, 2, 64);
    PolicyInputs inputs;
    inputs.causal = causal;
    inputs.softmax_scale = 0.1f;
    const PolicyResult result = p.run({}, inputs);
    const auto expected = plain_attention(p, causal, 0.1f);
    ASSERT_EQ(result.reference.size(), expected.size());
    for (size_t n = 0; n < expected.size(); ++n) {
      ASSERT_NEAR(result.reference[n], expected[n], 1e-12);
    }
    // The policy without any quantisation is FP32 attention.
    EXPECT_LT(relative_difference(result.output, expected), 2e-6);
    EXPECT_LT(result.worst_relative_l2(), 2e-6);
    EXPECT_GT(result.mean_cosine(), 1 - 1e-9);
  }
}

TEST(RunPolicy, ErrorsAreThoseOfTheOutputs) {
  const RandomProblem p(40, 40, 2, 1, 64);
  const PolicyResult result = p.run(naive_policy());
  for (int64_t h = 0; h < 2; ++h) {
    double error = 0, norm = 0, product = 0, own = 0;
    for (int64_t i = 0; i < 40; ++i) {
      for (int64_t c = 0; c < 64; ++c) {
        const double x = result.output[(i * 2 + h) * 64 + c];
        const double y = result.reference[(i * 2 + h) * 64 + c];
        error += (x - y) * (x - y);
        norm += y * y;
        product += x * y;
        own += x * x;
      }
    }
    EXPECT_NEAR(result.relative_l2[h], std::sqrt(error / norm), 1e-12);
    EXPECT_NEAR(result.cosine[h], product / std::sqrt(norm * own), 1e-12);
  }
}

TEST(RunPolicy, LastRowsAloneAreTheLastRowsOfAll) {
  const RandomProblem p(300, 300, 3, 3, 64);
  for (const Policy& policy : {default_policy(), paper_policy()}) {
    const PolicyResult all = p.run(policy);
    PolicyInputs inputs;
    inputs.first_query_row = 296;
    const PolicyResult last = p.run(policy, inputs);
    const size_t tail = 4 * 3 * 64;
    ASSERT_EQ(last.output.size(), tail);
    EXPECT_EQ(last.output, std::vector<float>(all.output.end() - tail, all.output.end()));
    EXPECT_EQ(last.reference, std::vector<double>(all.reference.end() - tail, all.reference.end()));
  }
}

TEST(RunPolicy, ShortQueriesAreAlignedAtTheBottomRight) {
  const RandomProblem p(300, 300, 2, 2, 64);
  const int64_t rows = 5;
  DLTensor tail = p.q.get();
  int64_t shape[3] = {rows, 2, 64};
  tail.shape = shape;
  tail.byte_offset = (300 - rows) * 2 * 64 * sizeof(float);
  PolicyInputs inputs;
  inputs.keep_output = true;
  const PolicyResult all = p.run({});
  const PolicyResult last = run_policy({}, tail, p.k.get(), p.v.get(), inputs);
  EXPECT_EQ(last.output, std::vector<float>(all.output.end() - rows * 2 * 64, all.output.end()));
}

TEST(RunPolicy, StatisticsComeFromTheGivenRowsOnly) {
  RandomProblem p(96, 96, 2, 1, 64);
  PolicyInputs inputs;
  inputs.mean_keys = {8, 40};
  inputs.mean_queries = {0, 32};
  inputs.basis_queries = {16, 48};
  Policy policy = default_policy();
  policy.delta_s = true;
  // Rows of q outside the ranges and before the first evaluated one change nothing.
  inputs.first_query_row = 64;
  const PolicyResult before = p.run(policy, inputs);
  p.q(60, 0, 3) += 100.0f;
  EXPECT_EQ(p.run(policy, inputs).output, before.output);
  p.q(20, 0, 3) += 100.0f;
  EXPECT_NE(p.run(policy, inputs).output, before.output);
}

TEST(RunPolicy, PlacementsDifferInRoundingOnly) {
  const RandomProblem p(200, 200, 3, 1, 64);
  Policy policy = *find_policy("search_delta_s_first");
  policy.residual_rank = 8;
  policy.p = PFormat::kFp32;
  const PolicyResult accumulator = p.run(policy);
  policy.compensation = CompensationPlace::kSoftmaxWarps;
  const PolicyResult warps = p.run(policy);
  EXPECT_NE(accumulator.output, warps.output);
  const std::vector<double> expected(accumulator.output.begin(), accumulator.output.end());
  EXPECT_LT(relative_difference(warps.output, expected), 1e-6);
}

// The library's own cache and oracle, fed with the same statistics, give the policy's output: the
// emulation and the cache writer agree on every bit that they store.
TEST(RunPolicy, AgreesWithTheCacheAndTheOracle) {
  for (const int64_t d : {64, 128}) {
    for (const bool delta_s : {false, true}) {
      const int64_t tokens = 200, hq = 6, hkv = 2;
      const RandomProblem p(tokens, tokens, hq, hkv, d);
      // U of centred queries is the policies' own choice with delta_s: leave the residual out
      // there.
      Policy policy = *find_policy(delta_s ? "search_delta_s_first" : "default");
      policy.p = PFormat::kFp32;

      KvCacheConfig config;
      config.num_pages = (tokens + 63) / 64;
      config.num_q_heads = hq;
      config.num_kv_heads = hkv;
      config.head_dim = d;
      config.residual_rank = delta_s ? 0 : 8;
      config.delta_s = delta_s;
      KvCache cache(config);
      KvCacheView view = cache.view();
      TensorBox<float> k_mean({1, hkv, d}), q_mean({1, hq, d});
      compute_means(p.k.get(), nullptr, k_mean.get());
      compute_means(p.q.get(), nullptr, q_mean.get());
      TensorBox<float> mean({hkv, d}), basis({1, hkv, 8, d}), scale({1, hkv, 8});
      TensorBox<float> basis_out({hkv, 8, d}), scale_out({hkv, 8});
      calibrate(p.q.get(), p.k.get(), {mean.ptr(), nullptr, basis_out.ptr(), scale_out.ptr()});
      basis.values() = basis_out.values();
      scale.values() = scale_out.values();
      view.stats.k_mean = k_mean.ptr();
      view.stats.q_mean = q_mean.ptr();
      if (!delta_s) {
        view.stats.residual_basis = basis.ptr();
        view.stats.residual_scale = scale.ptr();
      }
      TensorBox<int64_t> slots({tokens});
      std::iota(slots.values().begin(), slots.values().end(), 0);
      append_kv(view, p.k.get(), p.v.get(), slots.get());

      TensorBox<int32_t> table({1, config.num_pages}), lens({1}), cu({2});
      std::iota(table.values().begin(), table.values().end(), 0);
      lens(0) = cu(1) = static_cast<int32_t>(tokens);
      TensorBox<double> out({tokens, hq, d});
      attention_reference(out.get(), nullptr, p.q.get(), view, table.get(), lens.get(), cu.ptr());
      EXPECT_LT(relative_difference(p.run(policy).output, out.values()), 2e-6)
          << "d " << d << " delta_s " << delta_s;
    }
  }
}

TEST(RunPolicy, EachCompensationHelps) {
  const RandomProblem p(256, 256, 3, 1, 64);
  const auto error = [&](const char* name) { return p.run(*find_policy(name)).mean_relative_l2(); };
  EXPECT_LT(error("search"), error("plain"));
  EXPECT_LT(error("search_r8"), error("search"));
  EXPECT_LT(error("search_r16"), error("search_r8"));
  EXPECT_LT(error("search_first"), error("search"));
  EXPECT_LT(error("default"), error("search_r8"));
  EXPECT_LT(error("two_terms_r8_first"), error("one_term_delta_s_first"));
}

// Keys whose centred values NVFP4 holds exactly leave no error whatever the compensation.
TEST(RunPolicy, ExactKeysLeaveOnlyRounding) {
  const int64_t tokens = 64;
  RandomProblem p(tokens, tokens, 2, 1, 64);
  std::mt19937 rng(3);
  for (int64_t c = 0; c < 64; ++c) {
    for (int64_t j = 0; j < tokens; j += 2) {
      // Pairs (mean + x, mean - x): the mean is exact, and so is Kc = +-x.
      const float x = c % 16 == 0 ? 6.0f : e2m1_to_float(static_cast<uint8_t>(rng() % 16));
      p.k(j, 0, c) = 10.0f + x;
      p.k(j + 1, 0, c) = 10.0f - x;
    }
  }
  for (const char* name : {"plain", "plain_delta_s", "search", "search_r8", "default"}) {
    Policy policy = *find_policy(name);
    policy.v = VFormat::kInput;
    policy.p = PFormat::kFp32;
    // delta_s itself is BF16.
    EXPECT_LT(p.run(policy).worst_relative_l2(), policy.delta_s ? 1e-2 : 1e-5) << name;
  }
}

TEST(RunPolicy, OutputHasTheTypeOfQ) {
  const RandomProblem p(32, 32, 2, 1, 64);
  TensorBox<Bf16> q({32, 2, 64});
  for (size_t n = 0; n < q.values().size(); ++n) {
    q.values()[n] = bf16_from_float(p.q.values()[n]);
  }
  PolicyInputs inputs;
  inputs.keep_output = true;
  const PolicyResult result = run_policy({}, q.get(), p.k.get(), p.v.get(), inputs);
  for (const float x : result.output) EXPECT_EQ(bf16_to_float(bf16_from_float(x)), x);
}

TEST(RunPolicy, ZeroValues) {
  RandomProblem p(20, 20, 1, 1, 64);
  std::fill(p.v.values().begin(), p.v.values().end(), 0.0f);
  std::fill(p.k.values().begin(), p.k.values().end(), 0.0f);
  for (const Policy& policy : all_policies()) {
    const PolicyResult result = p.run(policy);
    EXPECT_EQ(result.relative_l2, std::vector<double>{0.0}) << policy.name;
    EXPECT_EQ(result.cosine, std::vector<double>{1.0}) << policy.name;
    for (const float x : result.output) EXPECT_EQ(x, 0.0f);
  }
}

TEST(RunPolicy, SeveralAtOnceAreEachAlone) {
  const RandomProblem p(40, 70, 4, 2, 128);
  const auto all = run_policies(all_policies(), p.q.get(), p.k.get(), p.v.get());
  ASSERT_EQ(all.size(), all_policies().size());
  for (size_t n = 0; n < all.size(); ++n) {
    EXPECT_EQ(all[n].relative_l2, p.run(all_policies()[n]).relative_l2);
  }
}

TEST(RunPolicy, RefusesWhatDoesNotFit) {
  RandomProblem p(10, 10, 4, 2, 64);
  expect_error("head_dim = 32", [] { RandomProblem(10, 10, 4, 2, 32).run({}); });
  expect_error("KV heads", [] { RandomProblem(10, 10, 3, 2, 64).run({}); });
  expect_error("tokens of k", [] { RandomProblem(11, 10, 4, 2, 64).run({}); });
  PolicyInputs inputs;
  inputs.first_query_row = 10;
  expect_error("first_query_row = 10", [&] { p.run({}, inputs); });
  inputs = {};
  inputs.basis_queries = {4, 11};
  expect_error("basis_queries = [4, 11)", [&] { p.run({}, inputs); });
  inputs = {};
  inputs.mean_keys = {3, 3};
  expect_error("mean_keys = [3, 3)", [&] { p.run({}, inputs); });
  inputs = {};
  inputs.softmax_scale = 0.0f;
  expect_error("softmax_scale = 0", [&] { p.run({}, inputs); });
  Policy policy = default_policy();
  policy.centre_k = false;
  expect_error("centre_k", [&] { p.run(policy); });
  policy = default_policy();
  policy.residual_rank = 17;
  expect_error("residual_rank = 17", [&] { p.run(policy); });
  policy = default_policy();
  policy.k = KFormat::kE4m3;
  expect_error("residual", [&] { p.run(policy); });
  policy = Policy{};
  policy.first_key = true;
  expect_error("first_key", [&] { p.run(policy); });
  p.k(3, 1, 5) = NAN;
  expect_error("k[3, 1, 5] = nan", [&] { p.run({}); });
}

}  // namespace
}  // namespace mpfa::internal
