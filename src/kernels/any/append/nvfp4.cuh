// NVFP4 quantisation of a block in one lane: nvfp4_quantize() of mpfa/formats.h, bit for bit, in
// fewer instructions.
#pragma once

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
// With 2^e <= y < 2^(e+1) the values are 2^(e-1) apart from 1 on, and 1/2 below it. m * 2^22 - y has
// that very distance in its last bit (m lies in y's binade, or in that of 1 below it), so the
// subtraction rounds y. For y just above 2^e it ends one binade below, where it is exact: y rounds
// to 2^e all the same. Ties have m * 2^22 even, as then m has few bits.
__device__ __forceinline__ float round_e2m1(float y) {
  const float m = fmaxf(y, 1.5f);
  const float rest = __fmaf_rn(m, 0x1p22f, -y);
  return __fmaf_rn(m, 0x1p22f, -rest);
}

// sum (s * code - x)^2 by halves; s * code is exact, so the FMA rounds once, as the difference does.
// kClamp: y may be 7 or more.
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
  // amax / s is 6.375 at most from plain + 1 on, unless the scale is subnormal.
  const int last_clamped = __any_sync(~0u, plain < 8) ? kScaleSearchLast : 0;
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

// x becomes what its codes stand for. All lanes of the warp take part.
__device__ __forceinline__ QuantizedBlock quantize_block(float (&x)[kNvfp4BlockSize],
                                                         ScaleRule rule, const ScaleEntry* table) {
  float amax = 0.0f;
#pragma unroll
  for (const float value : x) amax = ptx::max_or_nan(amax, fabsf(value));
  int code = ptx::e4m3(__fdiv_rn(amax, 6.0f));
  if (rule == ScaleRule::kSearch) {
    const bool has_choice = code != 0 && code != kE4m3NanCode;
    // The others search around any code, and drop what they find.
    const int found = search_scale(x, has_choice ? code : 8, table);
    if (has_choice) code = found;
  }
  const ScaleEntry scale = table[code];
  QuantizedBlock block{{0, 0}, static_cast<uint32_t>(code), amax < __uint_as_float(0x7F800000u)};
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    const float y = fminf(__fmul_rn(fabsf(x[i]), scale.inverse), kE2m1Max);
    const float magnitude = round_e2m1(y);
    // e2m1 has FP32's layout with one bit of fraction, and subnormals below 1 as below 2^-126.
    const uint32_t bits = __float_as_uint(__fmul_rn(magnitude, 0x1p-126f));
    const uint32_t sign = __float_as_uint(x[i]) & 0x80000000u;
    uint32_t& word = i < 8 ? block.codes.x : block.codes.y;
    const int at = 4 * (i % 8);
    word |= at <= 22 ? bits >> (22 - at) : bits << (at - 22);
    word |= sign >> (28 - at);
    x[i] = __fmul_rn(scale.value, __uint_as_float(__float_as_uint(magnitude) | sign));
  }
  if (code == kE4m3NanCode) block.codes = {0x77777777u, 0x77777777u};
  return block;
}

}  // namespace mpfa::kernels
