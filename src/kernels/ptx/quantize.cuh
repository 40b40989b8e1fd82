// Conversions to the cache's formats.
#pragma once

#include <cstdint>

#include "mpfa/formats.h"

namespace mpfa::kernels::ptx {

// The larger of a and |b|; NaN if either is one, which fmaxf() is not. In one piece, so that |b| is
// part of the instruction and no value of its own.
__device__ __forceinline__ float max_abs_or_nan(float a, float b) {
  float larger;
  asm("{.reg .f32 size;\n abs.f32 size, %2;\n max.NaN.f32 %0, %1, size;}"
      : "=f"(larger)
      : "f"(a), "f"(b));
  return larger;
}

// The smaller value; NaN if either is one.
__device__ __forceinline__ float min_or_nan(float a, float b) {
  float smaller;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
  return smaller;
}

// Two values as e4m3, `low` in the low byte: nearest even, saturating, every NaN 0x7F.
__device__ __forceinline__ uint32_t e4m3x2(float low, float high) {
#if __CUDA_ARCH__ >= 890
  uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
#else
  const uint32_t a = isnan(low) ? kE4m3NanCode : e4m3_from_float(low).bits;
  const uint32_t b = isnan(high) ? kE4m3NanCode : e4m3_from_float(high).bits;
  return a | b << 8;
#endif
}

// Four values. The shift makes the second conversion fill the upper half by itself.
__device__ __forceinline__ uint32_t e4m3x4(float a, float b, float c, float d) {
  return e4m3x2(a, b) | e4m3x2(c, d) << 16;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
// Likewise of pairs in FP16.
__device__ __forceinline__ uint32_t e4m3x2(uint32_t pair) {
  uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(packed) : "r"(pair));
  return packed;
}
__device__ __forceinline__ uint32_t e4m3x4(uint32_t low, uint32_t high) {
  return e4m3x2(low) | e4m3x2(high) << 16;
}
#endif

__device__ __forceinline__ uint8_t e4m3(float x) { return static_cast<uint8_t>(e4m3x2(x, 0.0f)); }

}  // namespace mpfa::kernels::ptx
