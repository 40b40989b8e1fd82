// NVFP4 quantisation of a block in one lane: nvfp4_quantize() of mpfa/formats.h, bit for bit, in
// fewer instructions.
#pragma once

#include "kernels/ptx/convert.cuh"
#include "kernels/ptx/quantize.cuh"

namespace mpfa::kernels {

// A scale and its inverse, by code. Candidates past 0x7E have NaN, so that their error is NaN and
// never the smallest.
struct ScaleEntry {
  float value;
  float inverse;
};
inline constexpr int kScaleEntries = kE4m3NanCode + kScaleSearchLast + 1;

// All threads of a CTA; a barrier must follow.
__device__ __forceinline__ void fill_scale_table(ScaleEntry* table, int thread, int threads) {
  for (int code = thread; code < kScaleEntries; code += threads) {
    const float value = e4m3_to_float({static_cast<uint8_t>(min(code, int{kE4m3NanCode}))});
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
// does. kClamp: y may be 7 or more.
template <bool kClamp>
__device__ __forceinline__ float squared_error(const float (&x)[kNvfp4BlockSize],
                                               const ScaleEntry& scale) {
  float sum[kNvfp4BlockSize / 2];
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize / 2; ++i) {
    float square[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float a = fabsf(x[i + half * kNvfp4BlockSize / 2]);
      float y = __fmul_rn(a, scale.inverse);
      if constexpr (kClamp) y = fminf(y, kE2m1Max);
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

// The best of the six candidates around `plain`, which is neither 0 nor NaN. All lanes of the warp
// take part.
__device__ __forceinline__ int search_scale(const float (&x)[kNvfp4BlockSize], int plain,
                                            const ScaleEntry* table) {
  int best = max(plain + kScaleSearchFirst, 1);  // stands unless something is strictly better
  float best_error = __uint_as_float(0x7F800000u);
  const auto keep = [&](int code, float error) {
    if (code >= 1 && error < best_error) {
      best = code;
      best_error = error;
    }
  };
  // From the plain scale on amax / s is 6.375 at most, unless that is subnormal or saturated.
  const bool is_far = plain < 8 || plain == kE4m3MaxCode;
  const int last_clamped = __any_sync(~0u, is_far) ? kScaleSearchLast : kScaleSearchFirst;
  int step = kScaleSearchFirst;
#pragma unroll 1
  for (; step <= last_clamped; ++step) {
    keep(plain + step, squared_error<true>(x, table[plain + step]));
  }
#pragma unroll 1
  for (; step <= kScaleSearchLast; ++step) {
    keep(plain + step, squared_error<false>(x, table[plain + step]));
  }
  return best;
}

struct QuantizedBlock {
  uint2 codes;
  uint32_t scale;
  bool is_finite;  // all sixteen values
};

// FP16 values of 2^-14 times an e2m1 value have its code in bits 9 to 11, as FP16's subnormals are
// below 2^-14, and the sign in bit 15.
inline constexpr float kCodeUnit = 0x1p-14f;

// Codes of eight such values, two in a word.
__device__ __forceinline__ uint32_t pack_codes(uint32_t x01, uint32_t x23, uint32_t x45,
                                               uint32_t x67) {
  const auto nibbles = [](uint32_t a, uint32_t b) {
    const uint32_t high_bytes = __byte_perm(a, b, 0x7531);
    const uint32_t apart = (high_bytes >> 1 & 0x07070707u) | (high_bytes >> 4 & 0x08080808u);
    return apart | apart >> 4;  // in bytes 0 and 2
  };
  return __byte_perm(nibbles(x01, x23), nibbles(x45, x67), 0x6420);
}

// x becomes what its codes stand for. All lanes of the warp take part.
__device__ __forceinline__ QuantizedBlock quantize_block(float (&x)[kNvfp4BlockSize],
                                                         ScaleRule rule, const ScaleEntry* table) {
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) amax = ptx::max_or_nan(amax, fabsf(x[i]));
  int code = ptx::e4m3(__fdiv_rn(amax, 6.0f));
  if (rule == ScaleRule::kSearch) {
    const bool has_choice = code != 0 && code != kE4m3NanCode;
    // The others search around any code, and drop what they find.
    const int found = search_scale(x, has_choice ? code : 8, table);
    if (has_choice) code = found;
  }
  const ScaleEntry scale = table[code];
  QuantizedBlock block{{0, 0}, static_cast<uint32_t>(code), amax < __uint_as_float(0x7F800000u)};
  const float inverse = scale.inverse * kCodeUnit;
  const float value = scale.value / kCodeUnit;
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    const float y = fminf(__fmul_rn(fabsf(x[i]), inverse), kE2m1Max * kCodeUnit);
    x[i] = copysignf(round_e2m1<kCodeUnit>(y), x[i]);
  }
  uint32_t pairs[kNvfp4BlockSize / 2];
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize / 2; ++i) pairs[i] = ptx::f16x2(x[2 * i], x[2 * i + 1]);
  block.codes.x = pack_codes(pairs[0], pairs[1], pairs[2], pairs[3]);
  block.codes.y = pack_codes(pairs[4], pairs[5], pairs[6], pairs[7]);
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fmul_rn(value, x[i]);
  if (code == kE4m3NanCode) block.codes = {0x77777777u, 0x77777777u};
  return block;
}

}  // namespace mpfa::kernels
