// Scores of a tile in FP16, as ScoresFp32 in pairs: element 2 j + h is row lane / 4 + 8 h, keys 8 j
// + lane % 4 * 2 and the next.
#pragma once

#include "kernels/ptx/integer.cuh"
#include "kernels/ptx/quantize.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/sm90/prefill/softmax.cuh"

namespace mpfa::kernels::sm90 {

struct ScoresFp16 {
  uint32_t x[32];

  __device__ __forceinline__ void multiply(uint64_t a, uint64_t b, int adds) {
    ptx::wgmma_f16(x, a, b, adds);
  }

  __device__ __forceinline__ void hide(int half, uint32_t seen) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      uint32_t& pair = x[2 * j + half];
      if ((seen >> 2 * j & 1) == 0) pair = (pair & 0xFFFF0000u) | 0xFC00u;
      if ((seen >> 2 * j & 2) == 0) pair = (pair & 0xFFFFu) | 0xFC000000u;
    }
  }

  __device__ __forceinline__ void cap(int half, float bias, float factor) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      uint32_t& pair = x[2 * j + half];
      pair = ptx::f16x2(tanh_approx((ptx::low_f16(pair) + bias) * factor),
                        tanh_approx((ptx::high_f16(pair) + bias) * factor));
    }
  }

  // The limit is rounded down.
  __device__ __forceinline__ bool may_exceed(int half, float lambda, float offset) const {
    const float limit = limit_of_scores(lambda, offset);
    const uint32_t pair = ptx::f16_twice_down(limit);
    uint32_t most = pair;
#pragma unroll
    for (int j = 0; j < 16; j += 2) {
      most = ptx::max3_s16x2(most, x[2 * j + half], x[2 * j + 2 + half]);
    }
    return (most != pair) | !(limit > 0);
  }

  __device__ __forceinline__ float move(int half, float lambda, float& offset) const {
    uint32_t most = x[half];
#pragma unroll
    for (int j = 1; j < 16; ++j) most = ptx::max_f16x2(most, x[2 * j + half]);
    const float largest = fmaxf(ptx::low_f16(most), ptx::high_f16(most));
    const float before = offset;
    const float factor = move_offset(offset, __fmul_rn(largest, lambda), kMostOffset);
    if (offset == before) return factor;
    // Exponents are taken with an offset that FP16 has.
    offset = ptx::low_f16(ptx::f16_twice_down(offset));
    return ptx::exp2_approx(offset - before);
  }

  __device__ __forceinline__ void exponentiate(int half, float lambda, float offset) {
    const uint32_t lambdas = ptx::f16x2(lambda, lambda);
    // Before any key is seen all scores are -inf.
    const float finite = fminf(offset, kMostOffset);
    const uint32_t offsets = ptx::f16x2(finite, finite);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      uint32_t& pair = x[2 * j + half];
      pair = ptx::exp2_f16x2(ptx::fma_f16x2(pair, lambdas, offsets));
    }
  }

  // Depends on probabilities, none of which is negative.
  __device__ __forceinline__ uint32_t signs() const {
    uint32_t all = ~0u;
#pragma unroll
    for (int i = 0; i < 32; i += 4) all &= x[i];
    return all;
  }

  __device__ __forceinline__ void to_operand(uint32_t (&operand)[4][4]) const {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = 2 * (4 * step + i / 2 * 2) + i % 2;
        operand[step][i] = ptx::e4m3x4(x[at], x[at + 2]);
      }
    }
  }

 private:
  static constexpr float kMostOffset = 65504.0f;
};

}  // namespace mpfa::kernels::sm90
