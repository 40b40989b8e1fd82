// NVFP4 quantisation of a block in one lane: nvfp4_quantize() of mpfa/formats.h, bit for bit, in
// fewer instructions.
#pragma once

#include <limits>

#include "kernels/ptx/convert.cuh"
#include "kernels/ptx/quantize.cuh"

namespace mpfa::kernels {

// A scale and its inverse, by code; both NaN for the NaN code.
struct ScaleEntry {
  float value;
  float inverse;
};
inline constexpr int kScaleEntries = kE4m3NanCode + 1;

// All threads of a CTA; a barrier must follow.
__device__ __forceinline__ void fill_scale_table(ScaleEntry* table, int thread, int threads) {
#pragma unroll 1
  for (int code = thread; code < kScaleEntries; code += threads) {
    // e4m3's bits are those of a float 2^120 times as small.
    float value = __fmul_rn(__uint_as_float(static_cast<uint32_t>(code) << 20), 0x1p120f);
    if (code == kE4m3NanCode) value = __uint_as_float(0x7FC00000u);
    table[code] = {value, code == 0 ? 0.0f : __fdiv_rn(1.0f, value)};
  }
}

// The e2m1 value nearest to y, ties to the even code, for 0 <= y < 7.
//
// With 2^e <= y < 2^(e+1) the values are 2^(e-1) apart from 1 on, and 1/2 below it. m * 2^22 - y
// has that very distance in its last bit (m lies in y's binade, or in that of 1 below it), so the
// subtraction rounds y. For y just above 2^e it ends one binade below, where it is exact: y rounds
// to 2^e all the same. Ties have m * 2^22 even, as then m has few bits.
//
// kUnit: of y and the result, a power of two.
template <float kUnit = 1.0f>
__device__ __forceinline__ float round_e2m1(float y) {
  const float m = fmaxf(y, 1.5f * kUnit);
  const float rest = __fmaf_rn(m, 0x1p22f, -y);
  return __fmaf_rn(m, 0x1p22f, -rest);
}

// sum (s * code - x)^2 by halves; s * code is exact, so the FMA rounds once, as the difference
// does.
__device__ __forceinline__ float squared_error(const float (&x)[kNvfp4BlockSize],
                                               const ScaleEntry& scale) {
  float sum[kNvfp4BlockSize / 2];
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize / 2; ++i) {
    float square[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float a = fabsf(x[i + half * kNvfp4BlockSize / 2]);
      const float y = fminf(__fmul_rn(a, scale.inverse), kE2m1Max);
      const float e = __fmaf_rn(scale.value, round_e2m1(y), -a);
      square[half] = __fmul_rn(e, e);
    }
    sum[i] = __fadd_rn(square[0], square[1]);
  }
#pragma unroll
  for (int half = kNvfp4BlockSize / 4; half >= 1; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) sum[i] = __fadd_rn(sum[i], sum[i + half]);
  }
  return sum[0];
}

// The best of the six candidates around `plain`, which is neither 0 nor NaN, by their errors as
// they are defined.
__device__ __forceinline__ int search_scale_exactly(const float (&x)[kNvfp4BlockSize], int plain,
                                                    const ScaleEntry* table) {
  int best = max(plain + kScaleSearchFirst, 1);  // stands unless something is strictly better
  float best_error = std::numeric_limits<float>::infinity();
#pragma unroll 1
  for (int step = kScaleSearchFirst; step <= kScaleSearchLast; ++step) {
    const int code =
        min(plain + step, int{kE4m3NanCode});  // whose error is NaN, never the smallest
    const float error = squared_error(x, table[code]);
    if (code >= 1 && error < best_error) {
      best = code;
      best_error = error;
    }
  }
  return best;
}

// Three candidates that follow one another share a grid: m * 2^22 of round_e2m1() for the one in
// the middle. Their y differ by 1/8 of it at most, and so near 2 and 4 both spacings of e2m1 round
// y to the same value.
inline constexpr int kSharedGrid = 3;
static_assert((kScaleSearchLast - kScaleSearchFirst + 1) % kSharedGrid == 0);

// sum (s * code - x)^2 of three candidates up to a relative error of 2^-17, in four instructions a
// value. No more than that where y > 7, which should be clamped and is not.
__device__ __forceinline__ void rough_errors(const float (&x)[kNvfp4BlockSize],
                                             const ScaleEntry* scales,
                                             float (&errors)[kSharedGrid]) {
  const float middle = scales[kSharedGrid / 2].inverse * 0x1p22f;
#pragma unroll
  for (int j = 0; j < kSharedGrid; ++j) errors[j] = 0.0f;
    // Candidates are the inner loop: x and the grid stay at the multipliers' inputs.
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    const float grid = fmaxf(fabsf(x[i] * middle), 0x1.8p22f);
#pragma unroll
    for (int j = 0; j < kSharedGrid; ++j) {
      const float rounded = __fsub_rn(__fmaf_rn(x[i], scales[j].inverse, grid), grid);
      const float e = __fmaf_rn(-scales[j].value, rounded, x[i]);
      errors[j] = __fmaf_rn(e, e, errors[j]);
    }
  }
}

// The best candidate by rough errors, or -1 if they do not tell. x has no NaN.
__device__ __forceinline__ int search_scale_roughly(const float (&x)[kNvfp4BlockSize], float amax,
                                                    int plain, const ScaleEntry* table) {
  int best = 0;
  float best_error = std::numeric_limits<float>::infinity();
  float second_error = best_error;
#pragma unroll 1
  for (int first = plain + kScaleSearchFirst; first <= plain + kScaleSearchLast;
       first += kSharedGrid) {
    float errors[kSharedGrid];
    rough_errors(x, table + first, errors);
#pragma unroll
    for (int j = 0; j < kSharedGrid; ++j) {
      const float error = errors[j];
      best = error < best_error ? first + j : best;
      second_error = fminf(second_error, fmaxf(best_error, error));
      best_error = fminf(best_error, error);
    }
  }
  // The summand is for errors whose squares are subnormal.
  const bool is_close = second_error <= __fmaf_rn(best_error, 1.0f + 0x1p-15f, 0x1p-100f);
  const int first = plain + kScaleSearchFirst;
  const bool is_clamped = best == first && amax > 6.99f * table[first].value;
  return is_close || is_clamped ? -1 : best;
}

// Whether all candidates are normal, next to one another and finite.
__device__ __forceinline__ bool has_plain_neighbours(int plain) {
  return plain + kScaleSearchFirst >= 8 && plain + kScaleSearchLast <= kE4m3MaxCode;
}

// The best of the six candidates around `plain`. All lanes of the warp take part; those without a
// choice get anything.
__device__ __forceinline__ int search_scale(const float (&x)[kNvfp4BlockSize], float amax,
                                            int plain, const ScaleEntry* table) {
  constexpr int kAnyCode = 64;
  const bool has_choice = plain != 0 && plain != kE4m3NanCode;
  const bool is_near = has_plain_neighbours(plain);
  int best = search_scale_roughly(x, amax, is_near ? plain : kAnyCode, table);
  if (!is_near) best = -1;
  if (__any_sync(~0u, has_choice && best < 0)) {
    best = search_scale_exactly(x, has_choice ? plain : kAnyCode, table);
  }
  return best;
}

struct QuantizedBlock {
  uint2 codes;
  uint32_t scale;
  float unit;      // what the values that quantize_block() leaves are multiples of
  bool is_finite;  // all sixteen values
};

// FP16 values of 2^-14 times an e2m1 value have its code in bits 9 to 11, as FP16's subnormals are
// below 2^-14, and the sign in bit 15.
inline constexpr float kCodeUnit = 0x1p-14f;

// Codes of eight such values.
__device__ __forceinline__ uint32_t pack_codes(const float* x) {
  const auto high_bytes = [&](int first) {  // of every second value
    return __byte_perm(ptx::f16x2(x[first], x[first + 2]), ptx::f16x2(x[first + 4], x[first + 6]),
                       0x7531);
  };
  const auto choose = [](uint32_t mask, uint32_t a, uint32_t b) {
    return (a & mask) | (b & ~mask);
  };
  const uint32_t even = high_bytes(0);
  const uint32_t odd = high_bytes(1);
  return choose(0x0F0F0F0Fu, choose(0x07070707u, even >> 1, even >> 4),
                choose(0x70707070u, odd << 3, odd));
}

// The code of e4m3(amax / 6).
__device__ __forceinline__ int plain_scale(float amax) {
  // Saturates either way. Then two FMAs round the quotient as a division does, unless it is
  // subnormal, where its code is 0 in any case.
  const float a = ptx::min_or_nan(amax, 4096.0f);
  constexpr float kSixth = 1.0f / 6.0f;
  const float quotient = __fmul_rn(a, kSixth);
  return ptx::e4m3(__fmaf_rn(__fmaf_rn(-6.0f, quotient, a), kSixth, quotient));
}

// x becomes what restore() takes. All lanes of the warp take part.
__device__ __forceinline__ QuantizedBlock quantize_block(float (&x)[kNvfp4BlockSize],
                                                         ScaleRule rule, const ScaleEntry* table) {
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) amax = ptx::max_abs_or_nan(amax, x[i]);
  int code = plain_scale(amax);
  if (rule == ScaleRule::kSearch) {
    const int found = search_scale(x, amax, code, table);
    if (code != 0 && code != kE4m3NanCode) code = found;
  }
  const ScaleEntry scale = table[code];
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  QuantizedBlock block{
      {0, 0}, static_cast<uint32_t>(code), scale.value / kCodeUnit, amax < kInfinity};
  if (__any_sync(~0u, !(__fmul_rn(amax, scale.inverse) < 7.0f))) {
    const float limit = scale.value > 0.0f ? kE2m1Max * scale.value : kInfinity;
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = fminf(fmaxf(x[i], -limit), limit);
  }
  const float inverse = scale.inverse * kCodeUnit;
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    x[i] = copysignf(round_e2m1<kCodeUnit>(__fmul_rn(fabsf(x[i]), inverse)), x[i]);
  }
  block.codes = make_uint2(pack_codes(x), pack_codes(x + kNvfp4BlockSize / 2));
  if (code == kE4m3NanCode) block.codes = {0x77777777u, 0x77777777u};
  return block;
}

// What the codes stand for, from what quantize_block() left.
__device__ __forceinline__ void restore(float (&x)[kNvfp4BlockSize], const QuantizedBlock& block) {
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fmul_rn(block.unit, x[i]);
}

}  // namespace mpfa::kernels
