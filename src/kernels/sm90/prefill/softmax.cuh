// Online softmax of a warp's 16 rows (docs/spec.md, section 3), with a lazy maximum: the reference
// moves only when a score exceeds it by 2^4.
#pragma once

#include "kernels/any/decode/softmax.cuh"
#include "kernels/ptx/convert.cuh"

namespace mpfa::kernels::sm90 {

// Exponents are taken as lambda * score + offset, offset = kRoom - reference: probabilities use
// e4m3's range up to 448 = 28 * 2^kLimit.
inline constexpr float kRoom = 4.807354922057604f;  // log2(28)
inline constexpr float kLimit = 4.0f;

template <class Config>
class Sm90Softmax {
 public:
  __device__ __forceinline__ void start(const RowScalars* rows, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      lambda_[half] = rows[lane / 4 + 8 * half].lambda;
      offset_[half] = kNoKey;
    }
  }

  // True if some row's reference moves, and what is added up so far is to be multiplied by factor.
  __device__ __forceinline__ bool move_reference(const float (&scores)[64], float (&factor)[2]) {
    float most[2];
    bool is_beyond = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = largest(scores, half);
      is_beyond |= exponent(most[half], half) > kRoom + kLimit;
    }
    if (!__any_sync(~0u, is_beyond)) return false;
#pragma unroll
    for (int half = 0; half < 2; ++half) factor[half] = move(most[half], half);
    return true;
  }

  // Scores become probabilities.
  __device__ __forceinline__ void exponentiate(float (&scores)[64]) const {
#pragma unroll
    for (int i = 0; i < 64; ++i) scores[i] = ptx::exp2_approx(exponent(scores[i], i / 2 % 2));
  }

  // Probabilities as the A operand of PV: a step of 32 keys each.
  __device__ __forceinline__ static void to_operand(const float (&p)[64],
                                                    uint32_t (&operand)[4][4]) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * (4 * step + i / 2 * 2) + i % 2 * 2;
        operand[step][i] = ptx::e4m3x4(p[at], p[at + 1], p[at + 4], p[at + 5]);
      }
    }
  }

  // kNoKey for a row without keys. Scores that are all NaN have moved no reference, and yet there
  // were keys.
  __device__ __forceinline__ float offset_of(int half, float sum) const {
    return offset_[half] == kNoKey && isnan(sum) ? 0.0f : offset_[half];
  }

 private:
  __device__ __forceinline__ float exponent(float score, int half) const {
    return fmaf(score, lambda_[half], offset_[half]);
  }

  __device__ __forceinline__ static float largest(const float (&scores)[64], int half) {
    float most = fmaxf(scores[2 * half], scores[2 * half + 1]);
#pragma unroll
    for (int j = 1; j < 16; ++j) {
      most = fmaxf(most, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
    }
    return most;
  }

  __device__ __forceinline__ float move(float most, int half) {
    float product = __fmul_rn(most, lambda_[half]);
    product = fmaxf(product, __shfl_xor_sync(~0u, product, 1));
    product = fmaxf(product, __shfl_xor_sync(~0u, product, 2));
    // Hidden keys alone leave the offset; a NaN of a score shows in the sum.
    const float before = offset_[half];
    if (product != __uint_as_float(0xFF800000u)) {
      offset_[half] = fminf(before, kRoom - product);
    }
    return ptx::exp2_approx(offset_[half] - before);
  }

  float lambda_[2];
  float offset_[2];
};

}  // namespace mpfa::kernels::sm90
