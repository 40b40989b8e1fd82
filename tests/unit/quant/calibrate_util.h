// What the tests of calibrate() share: its outputs, and what must hold for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "mpfa/quant.h"
#include "support/test_tensor.h"
#include "unit/formats/nvfp4_oracle.h"

namespace mpfa::testing {

// All four outputs of one call.
struct Calibration {
  Calibration(int64_t q_heads, int64_t kv_heads, int64_t rank, int64_t d)
      : k_mean(TestTensor::with_gaps(kF32, {kv_heads, d})),
        q_mean(TestTensor::with_gaps(kF32, {q_heads, d})),
        basis(TestTensor::with_gaps(kF32, {kv_heads, rank, d})),
        scale(TestTensor::with_gaps(kF32, {kv_heads, rank})) {}

  CalibrationOut out() { return {k_mean.ptr(), q_mean.ptr(), basis.ptr(), scale.ptr()}; }

  std::vector<float> u(int64_t head, int64_t j) const {
    std::vector<float> row(static_cast<size_t>(basis.shape()[2]));
    for (size_t i = 0; i < row.size(); ++i) row[i] = basis.get({head, j, static_cast<int64_t>(i)});
    return row;
  }
  bool operator==(const Calibration& other) const {
    return k_mean.snapshot() == other.k_mean.snapshot() &&
           q_mean.snapshot() == other.q_mean.snapshot() &&
           basis.snapshot() == other.basis.snapshot() && scale.snapshot() == other.scale.snapshot();
  }

  TestTensor k_mean, q_mean, basis, scale;
};

inline void expect_orthonormal(const Calibration& c) {
  const TestTensor::Shape& shape = c.basis.shape();
  for (int64_t h = 0; h < shape[0]; ++h) {
    for (int64_t a = 0; a < shape[1]; ++a) {
      for (int64_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (int64_t i = 0; i < shape[2]; ++i) {
          dot += static_cast<double>(c.basis.get({h, a, i})) *
                 static_cast<double>(c.basis.get({h, b, i}));
        }
        EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-6) << "head " << h << " rows " << a << ", " << b;
      }
    }
  }
}

// E of one key, from the documented formula and the independent quantiser.
inline std::vector<float> key_error(const TestTensor& k, const Calibration& c, int64_t token,
                                    int64_t head, float k_scale, ScaleRule rule) {
  const auto d = static_cast<size_t>(k.shape()[2]);
  std::vector<float> error(d);
  for (size_t start = 0; start < d; start += 16) {
    oracle::Block centred, x;
    for (size_t i = 0; i < 16; ++i) {
      const auto column = static_cast<int64_t>(start + i);
      centred[i] = oracle::add_fp32(k.get({token, head, column}), -c.k_mean.get({head, column}));
      x[i] = oracle::divide_fp32(centred[i], k_scale);
    }
    const oracle::QuantizedBlock block =
        rule == ScaleRule::kPlain ? oracle::quantize_plain(x) : oracle::quantize_search(x);
    const double s = oracle::e4m3_table().value(block.scale);
    for (size_t i = 0; i < 16; ++i) {
      const auto value = static_cast<float>(s * oracle::signed_e2m1_value(block.codes[i]));
      const float read = oracle::multiply_fp32(value, k_scale);
      error[start + i] = std::isinf(centred[i]) ? 0 : oracle::add_fp32(centred[i], -read);
    }
  }
  return error;
}

// The scales are those of the definition, bit for bit.
inline void expect_scales(const TestTensor& k, int64_t tokens, const Calibration& c,
                          const std::vector<float>& k_scale, ScaleRule rule) {
  for (int64_t h = 0; h < c.scale.shape()[0]; ++h) {
    std::vector<float> largest(static_cast<size_t>(c.scale.shape()[1]));
    for (int64_t t = 0; t < tokens; ++t) {
      const std::vector<float> e = key_error(k, c, t, h, k_scale[static_cast<size_t>(h)], rule);
      for (size_t j = 0; j < largest.size(); ++j) {
        const float dot = dot_oracle(c.u(h, static_cast<int64_t>(j)), e);
        largest[j] = std::max(largest[j], std::abs(dot));
      }
    }
    for (size_t j = 0; j < largest.size(); ++j) {
      const float expected = largest[j] == 0 ? 1 : largest[j] / 64;
      EXPECT_EQ(c.scale.get({h, static_cast<int64_t>(j)}), expected) << "head " << h << " j " << j;
    }
  }
}

}  // namespace mpfa::testing
