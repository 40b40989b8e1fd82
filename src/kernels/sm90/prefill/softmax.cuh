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

  // Makes ready for a tile's scores: `output` is rescaled where the reference moves.
  template <int kSums>
  __device__ __forceinline__ void take(float (&scores)[64], float (&output)[kSums]) {
    bool is_beyond = false;
    float most[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = largest(scores, half);
      is_beyond |= exponent(most[half], half) > kRoom + kLimit;
    }
    if (__any_sync(~0u, is_beyond)) move_references(most, output);
  }

  // Probabilities as the A operand of PV: a step of 32 keys each.
  __device__ __forceinline__ void exponentiate(const float (&scores)[64],
                                               uint32_t (&operand)[4][4]) const {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i % 2;
        const int j = 4 * step + i / 2 * 2;
        operand[step][i] = ptx::e4m3x4(probability(scores[4 * j + 2 * half], half),
                                       probability(scores[4 * j + 2 * half + 1], half),
                                       probability(scores[4 * j + 4 + 2 * half], half),
                                       probability(scores[4 * j + 4 + 2 * half + 1], half));
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
  __device__ __forceinline__ float probability(float score, int half) const {
    return ptx::exp2_approx(exponent(score, half));
  }

  __device__ __forceinline__ static float largest(const float (&scores)[64], int half) {
    float most = fmaxf(scores[2 * half], scores[2 * half + 1]);
#pragma unroll
    for (int j = 1; j < 16; ++j) {
      most = fmaxf(most, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
    }
    return most;
  }

  template <int kSums>
  __device__ __forceinline__ void move_references(const float (&most)[2], float (&output)[kSums]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float product = __fmul_rn(most[half], lambda_[half]);
      product = fmaxf(product, __shfl_xor_sync(~0u, product, 1));
      product = fmaxf(product, __shfl_xor_sync(~0u, product, 2));
      // Hidden keys alone leave the offset; a NaN of a score shows in the sum.
      const float lower = product == __uint_as_float(0xFF800000u)
                              ? offset_[half]
                              : fminf(offset_[half], kRoom - product);
      const float factor = ptx::exp2_approx(lower - offset_[half]);
      offset_[half] = lower;
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        output[i + 2 * half] *= factor;
        output[i + 2 * half + 1] *= factor;
      }
    }
  }

  float lambda_[2];
  float offset_[2];
};

}  // namespace mpfa::kernels::sm90
