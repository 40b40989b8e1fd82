// Scores of a tile in FP32: 64 rows of a warpgroup, 128 keys. A thread's element 4 j + 2 h + e is
// row lane / 4 + 8 h, key 8 j + lane % 4 * 2 + e.
#pragma once

#include "kernels/ptx/integer.cuh"
#include "kernels/ptx/quantize.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/sm90/prefill/softmax.cuh"

namespace mpfa::kernels::sm90 {

struct ScoresFp32 {
  float x[64];

  __device__ __forceinline__ void multiply(uint64_t a, uint64_t b, int adds) {
    ptx::wgmma_f16(x, a, b, adds);
  }

  // -inf where a row does not see a key: bit i of `seen` is key i of the thread's of a row.
  __device__ __forceinline__ void hide(int half, uint32_t seen) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if ((seen >> i & 1) == 0) x[i / 2 * 4 + 2 * half + i % 2] = __uint_as_float(kMinusInfinity);
    }
  }

  // Softcap's tangent.
  __device__ __forceinline__ void cap(int half, float bias, float factor) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float& score = x[i / 2 * 4 + 2 * half + i % 2];
      score = tanh_approx((score + bias) * factor);
    }
  }

  // Whether a score may be more than kLimit above its row's reference. Floats above a positive
  // limit are above it as integers too; with another limit everything may be.
  __device__ __forceinline__ bool may_exceed(int half, float lambda, float offset) const {
    const float limit = limit_of_scores(lambda, offset);
    int most = __float_as_int(limit);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      most = ptx::max3_of_bits(most, x[4 * j + 2 * half], x[4 * j + 2 * half + 1]);
    }
    return (most != __float_as_int(limit)) | !(limit > 0);
  }

  __device__ __forceinline__ float move(int half, float lambda, float& offset) const {
    float most = fmaxf(x[2 * half], x[2 * half + 1]);
#pragma unroll
    for (int j = 1; j < 16; ++j) {
      most = fmaxf(most, fmaxf(x[4 * j + 2 * half], x[4 * j + 2 * half + 1]));
    }
    return move_offset(offset, __fmul_rn(most, lambda), kNoKey);
  }

  // A row's scores become probabilities.
  __device__ __forceinline__ void exponentiate(int half, float lambda, float offset) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float& score = x[i / 2 * 4 + 2 * half + i % 2];
      score = ptx::exp2_approx(fmaf(score, lambda, offset));
    }
  }

  // Depends on probabilities, none of which is negative.
  __device__ __forceinline__ uint32_t signs() const {
    uint32_t all = ~0u;
#pragma unroll
    for (int i = 0; i < 64; i += 4) all &= __float_as_uint(x[i]);
    return all;
  }

  // Probabilities as the A operand of PV: a step of 32 keys each.
  __device__ __forceinline__ void to_operand(uint32_t (&operand)[4][4]) const {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * (4 * step + i / 2 * 2) + i % 2 * 2;
        operand[step][i] = ptx::e4m3x4(x[at], x[at + 1], x[at + 4], x[at + 5]);
      }
    }
  }
};

}  // namespace mpfa::kernels::sm90
