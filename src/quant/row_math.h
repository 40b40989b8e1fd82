// Rows of d values as the quantisers need them: conversion to FP32 and dot products with one
// defined result (docs/spec.md, section 2).
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "mpfa/formats.h"

namespace mpfa::internal {

inline constexpr int64_t kMaxRowSize = 1024;

// fp16_to_float without branches, so that the compiler vectorises loops over it. Multiplying by
// 2^112 moves the exponent's bias and is exact, for subnormals too.
inline float widen(Fp16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t abs = static_cast<uint32_t>(x.bits & 0x7FFFu) << 13;
  const uint32_t special = (x.bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;
  return float_from_bits(float_bits(float_from_bits(abs) * 0x1p112f) | special | sign);
}
inline float widen(Bf16 x) { return bf16_to_float(x); }
inline float widen(float x) { return x; }

template <typename T>
void load_row(const T* row, int64_t size, float* out) {
  for (int64_t i = 0; i < size; ++i) out[i] = widen(row[i]);
}

// The dot product that every back end computes: FP32 products without FMA, summed by halves. `size`
// is a power of two, at most kMaxRowSize.
inline float dot_by_halves(const float* a, const float* b, int64_t size) {
  float sum[kMaxRowSize / 2];
  if (size == 1) return mul_rn(a[0], b[0]);
  int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    sum[i] = add_rn(mul_rn(a[i], b[i]), mul_rn(a[i + half], b[i + half]));
  }
  for (half /= 2; half >= 1; half /= 2) {
    for (int64_t i = 0; i < half; ++i) sum[i] = add_rn(sum[i], sum[i + half]);
  }
  return sum[0];
}

}  // namespace mpfa::internal
