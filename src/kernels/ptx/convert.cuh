// Conversions in registers, two values at a time.
#pragma once

#include <cstdint>

namespace mpfa::kernels::ptx {

// Two FP32 values as FP16, `low` in the low half; rounds to nearest even, overflow gives infinity.
__device__ __forceinline__ uint32_t f16x2(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ uint32_t bf16x2(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float low_f16(uint32_t packed) {
  float value;
  asm("{.reg .b16 lo, hi;\n mov.b32 {lo, hi}, %1;\n cvt.f32.f16 %0, lo;}"
      : "=f"(value)
      : "r"(packed));
  return value;
}

__device__ __forceinline__ float high_f16(uint32_t packed) {
  float value;
  asm("{.reg .b16 lo, hi;\n mov.b32 {lo, hi}, %1;\n cvt.f32.f16 %0, hi;}"
      : "=f"(value)
      : "r"(packed));
  return value;
}

__device__ __forceinline__ uint32_t mul_f16x2(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

__device__ __forceinline__ uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

// The larger of each half; of a number and a NaN the number.
__device__ __forceinline__ uint32_t max_f16x2(uint32_t a, uint32_t b) {
  uint32_t most;
  asm("max.f16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  return most;
}

// 2^x of each half by the GPU's approximation.
__device__ __forceinline__ uint32_t exp2_f16x2(uint32_t x) {
  uint32_t y;
  asm("ex2.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// x as FP16 twice, rounded toward minus infinity; what is beyond FP16 becomes its largest.
__device__ __forceinline__ uint32_t f16_twice_down(float x) {
  uint32_t packed;
  asm("{.reg .b16 half;\n cvt.rm.f16.f32 half, %1;\n mov.b32 %0, {half, half};}"
      : "=r"(packed)
      : "f"(x));
  return packed;
}

// Whether the GPU converts e4m3 itself. Where it does not, e4m3x2_to_f16x2 turns NaN into 480.
#if __CUDA_ARCH__ >= 890
inline constexpr bool kConvertsE4m3 = true;
#else
inline constexpr bool kConvertsE4m3 = false;
#endif

// The two e4m3 values in the low half of `word`, as FP16: exact.
__device__ __forceinline__ uint32_t e4m3x2_to_f16x2(uint32_t word) {
#if __CUDA_ARCH__ >= 890
  uint32_t values;
  asm("{.reg .b16 lo, hi;\n mov.b32 {lo, hi}, %1;\n cvt.rn.f16x2.e4m3x2 %0, lo;}"
      : "=r"(values)
      : "r"(word));
  return values;
#else
  // The bits of e4m3 are those of a FP16 value of 1/256, if moved to its exponent.
  const uint32_t apart = __byte_perm(word, 0, 0x4140) << 8;  // byte 0 to 15..8, byte 1 to 31..24
  const uint32_t bits = (apart & 0x80008000u) | ((apart >> 1) & 0x3F803F80u);
  return mul_f16x2(bits, 0x5C005C00u);  // 256
#endif
}

// The two in the high half of `word`. GPUs that convert take that half as it is: no shift.
__device__ __forceinline__ uint32_t high_e4m3x2_to_f16x2(uint32_t word) {
#if __CUDA_ARCH__ >= 890
  uint32_t values;
  asm("{.reg .b16 lo, hi;\n mov.b32 {lo, hi}, %1;\n cvt.rn.f16x2.e4m3x2 %0, hi;}"
      : "=r"(values)
      : "r"(word));
  return values;
#else
  return e4m3x2_to_f16x2(word >> 16);
#endif
}

// Bytes that are an e4m3 NaN, as 0x80 each.
__device__ __forceinline__ uint32_t find_e4m3_nan(uint32_t bytes) {
  return ((bytes & 0x7F7F7F7Fu) + 0x01010101u) & 0x80808080u;
}

// As e4m3x2_to_f16x2, NaN included on every GPU.
__device__ __forceinline__ uint32_t e4m3x2_to_f16x2_with_nan(uint32_t pair) {
  uint32_t values = e4m3x2_to_f16x2(pair);
  if constexpr (!kConvertsE4m3) {
    const uint32_t nan = find_e4m3_nan(pair);
    if ((nan & 0x80u) != 0) values |= 0x00007FFFu;
    if ((nan & 0x8000u) != 0) values |= 0x7FFF0000u;
  }
  return values;
}

// 1 / x by the GPU's approximation, within one bit; for x that is not subnormal.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The square root by the GPU's approximation, within two bits; 0 for a subnormal x.
__device__ __forceinline__ float sqrt_approx(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 2^x by the GPU's approximation: 0 for -inf.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace mpfa::kernels::ptx
