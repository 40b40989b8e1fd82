// NVFP4 blocks by the letter of docs/spec.md, section 1, written without mpfa/formats.h. Every FP32
// operation is done in double and rounded once, which for + - * / gives the same result and leaves
// no compiler anything to fuse.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "unit/formats/oracle.h"

namespace mpfa::oracle {

using Block = std::array<float, 16>;

inline float add_fp32(float a, float b) {
  return static_cast<float>(static_cast<double>(a) + static_cast<double>(b));
}
inline float multiply_fp32(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}
inline float divide_fp32(float a, float b) {
  return static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
}

struct QuantizedBlock {
  int scale = 0;
  std::array<int, 16> codes{};
  float error = 0;
};

inline double signed_e2m1_value(int code) {
  const double magnitude = e2m1_table().value(code % 8);
  return code >= 8 ? -magnitude : magnitude;
}

inline int e2m1_code(float x) {
  if (std::isnan(x)) return 7;
  return e2m1_table().nearest(std::fabs(x)) + (std::signbit(x) ? 8 : 0);
}

// v_i += v_{i + 8}, then 4, 2, 1 puts into v_i all elements that are i modulo the step.
inline float sum_by_halves(const Block& v, int first, int step) {
  if (step == 16) return v[first];
  return add_fp32(sum_by_halves(v, first, 2 * step), sum_by_halves(v, first + step, 2 * step));
}

inline QuantizedBlock quantize_with_scale(const Block& x, int scale) {
  QuantizedBlock result;
  result.scale = scale;
  const float s = scale == 0x7F ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>(e4m3_table().value(scale));
  const float r = s == 0 ? 0.0f : divide_fp32(1.0f, s);
  Block squares;
  for (int i = 0; i < 16; ++i) {
    result.codes[i] = e2m1_code(multiply_fp32(x[i], r));
    const float value = static_cast<float>(s * signed_e2m1_value(result.codes[i]));
    const float e = add_fp32(value, -x[i]);
    squares[i] = multiply_fp32(e, e);
  }
  result.error = sum_by_halves(squares, 0, 1);
  return result;
}

inline int plain_scale(const Block& x) {
  float amax = 0;
  for (const float value : x) {
    if (std::isnan(value)) return 0x7F;
    if (std::fabs(value) > amax) amax = std::fabs(value);
  }
  return e4m3_table().nearest(divide_fp32(amax, 6.0f));
}

inline QuantizedBlock quantize_plain(const Block& x) {
  return quantize_with_scale(x, plain_scale(x));
}

// Writes down all candidates first, then looks for the first of the smallest errors.
inline QuantizedBlock quantize_search(const Block& x) {
  const int c0 = plain_scale(x);
  if (c0 == 0 || c0 == 0x7F) return quantize_with_scale(x, c0);
  std::vector<QuantizedBlock> candidates;
  for (const int scale : {c0 - 1, c0, c0 + 1, c0 + 2, c0 + 3, c0 + 4}) {
    if (scale >= 1 && scale <= 0x7E) candidates.push_back(quantize_with_scale(x, scale));
  }
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [](const QuantizedBlock& a, const QuantizedBlock& b) { return a.error < b.error; });
}

}  // namespace mpfa::oracle
