// A small random problem for the emulated precision assignments.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cpu/policy.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {

struct RandomProblem {
  TensorBox<float> q, k, v;
  RandomProblem(int64_t rows, int64_t tokens, int64_t hq, int64_t hkv, int64_t d, unsigned seed = 7)
      : q({rows, hq, d}), k({tokens, hkv, d}), v({tokens, hkv, d}) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    for (auto* box : {&q, &k, &v}) {
      for (float& x : box->values()) x = normal(rng);
    }
    // A mean that NVFP4 feels, and a first key like a sink.
    for (size_t i = 0; i < k.values().size(); i += 16) k.values()[i] += 6.0f;
    for (int64_t i = 0; i < hkv * d; ++i) k.values()[i] *= 3.0f;
  }
  PolicyResult run(const Policy& policy, PolicyInputs inputs = {}) const {
    inputs.keep_output = true;
    return run_policy(policy, q.get(), k.get(), v.get(), inputs);
  }
};

inline double relative_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double error = 0, norm = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t n = 0; n < a.size(); ++n) {
    error += (a[n] - b[n]) * (a[n] - b[n]);
    norm += b[n] * b[n];
  }
  return std::sqrt(error / norm);
}

}  // namespace mpfa::internal
