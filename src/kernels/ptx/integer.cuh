// Integer maxima of three, which GPUs from sm_90 on take in one instruction.
#pragma once

#include <cstdint>

namespace mpfa::kernels::ptx {

// Of a and the bits of two FP32 values. The values stay floats for the compiler, which would copy
// the registers of an accumulator otherwise.
__device__ __forceinline__ int max3_of_bits(int a, float b, float c) {
  int most;
  asm("{\n.reg .b32 x, y, two;\n mov.b32 x, %2;\n mov.b32 y, %3;\n max.s32 two, %1, x;\n"
      " max.s32 %0, two, y;\n}"
      : "=r"(most)
      : "r"(a), "f"(b), "f"(c));
  return most;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// Signed, of both halves.
__device__ __forceinline__ uint32_t max3_s16x2(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t most;
  asm("{\n.reg .b32 two;\n max.s16x2 two, %1, %2;\n max.s16x2 %0, two, %3;\n}"
      : "=r"(most)
      : "r"(a), "r"(b), "r"(c));
  return most;
}
#endif

}  // namespace mpfa::kernels::ptx
