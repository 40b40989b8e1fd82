// Reading sixteen values of a row: a block of NVFP4, which one lane has whole.
#pragma once

#include "kernels/any/append/params.h"
#include "kernels/ptx/convert.cuh"

namespace mpfa::kernels {

// Element i of packed words.
template <InputType kType>
__device__ __forceinline__ float input_element(const uint32_t* words, int i) {
  if constexpr (kType == InputType::kFp32) {
    return __uint_as_float(words[i]);
  } else if constexpr (kType == InputType::kBf16) {
    return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
  } else {
    return i % 2 == 0 ? ptx::low_f16(words[i / 2]) : ptx::high_f16(words[i / 2]);
  }
}

template <InputType kType>
inline constexpr int kInputBytes = kType == InputType::kFp32 ? 4 : 2;

// A block as it lies in memory.
template <InputType kType>
struct InputBlock {
  static constexpr int kWords = kNvfp4BlockSize * kInputBytes<kType> / 4;
  uint32_t words[kWords];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = 0;
  }

  // vectors: `from` is aligned to 16 bytes.
  __device__ __forceinline__ void load(const std::byte* from, bool vectors) {
    if (vectors) {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(from) + i / 4);
        words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
      }
      return;
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(from);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = __ldg(bytes + 4 * i) | static_cast<uint32_t>(__ldg(bytes + 4 * i + 1)) << 8 |
                 static_cast<uint32_t>(__ldg(bytes + 4 * i + 2)) << 16 |
                 static_cast<uint32_t>(__ldg(bytes + 4 * i + 3)) << 24;
    }
  }

  __device__ __forceinline__ float operator[](int i) const {
    return input_element<kType>(words, i);
  }
};

// Sixteen values of statistics.
__device__ __forceinline__ void load_floats(const float* from, bool vectors,
                                            float (&x)[kNvfp4BlockSize]) {
  if (vectors) {
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from) + i / 4);
      x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __ldg(from + i);
}

// Divides a block by a scale, to the bit. Powers of two cost a product, 1 nothing.
__device__ __forceinline__ void divide(float (&x)[kNvfp4BlockSize], float scale) {
  if (scale == 1.0f) return;
  const uint32_t bits = __float_as_uint(scale);
  const uint32_t exponent = bits >> 23;
  if ((bits & 0x7FFFFFu) == 0 && exponent >= 1 && exponent <= 253) {
    const float inverse = __uint_as_float((254 - exponent) << 23);
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fmul_rn(x[i], inverse);
    return;
  }
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fdiv_rn(x[i], scale);
}

}  // namespace mpfa::kernels
