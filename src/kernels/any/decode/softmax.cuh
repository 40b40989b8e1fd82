// Online softmax of one warp over its tiles (docs/spec.md, section 3), with a lazy maximum: the
// reference moves only when a score exceeds it by 2^8, so most tiles need no look at other lanes.
#pragma once

#include "kernels/any/decode/scores.cuh"

namespace mpfa::kernels {

// Exponents are taken as lambda * score + offset, offset = kHeadroom - reference: probabilities use
// FP16's range up to 2^(kHeadroom + kLazyLimit) = 2^15.
inline constexpr float kHeadroom = 7.0f;
inline constexpr float kLazyLimit = 8.0f;
// The offset of a row that has seen no key: exponents of hidden scores stay -inf.
inline constexpr float kNoKey = 3.0e38f;

// A lane's two rows of each tile of rows: columns 2t and 2t + 1 of C.
template <class Config>
struct SoftmaxState {
  float lambda[Config::kRowTiles][2];
  float offset[Config::kRowTiles][2];
  float sum[Config::kRowTiles][2];  // of this lane's keys
  // Of any lane: references so large that rounding them is seen in exponents.
  bool has_large = false;

  __device__ __forceinline__ void start(const RowScalars* rows, int lane) {
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        lambda[n][i] = rows[row_of_element(n, i, lane)].lambda;
        offset[n][i] = kNoKey;
        sum[n][i] = 0.0f;
      }
    }
  }

  // Scores become exponents of 2; `output` is rescaled where the reference moves.
  template <class Output>
  __device__ __forceinline__ void to_exponents(Scores<Config>& scores, Output& output) {
    bool is_beyond = false;
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float most = largest(scores, n, i);
        is_beyond |= exponent(most, n, i) > kHeadroom + kLazyLimit;
        if (has_large) is_beyond |= rounded_exponent(most, n, i) > kHeadroom + kLazyLimit;
      }
    }
    if (__any_sync(~0u, is_beyond)) move_references(scores, output);
    if (has_large) {
      for_each_score<Config>(scores, [&](float& score, int /*half*/, int n, int e) {
        score = rounded_exponent(score, n, e % 2);
      });
    } else {
      for_each_score<Config>(scores, [&](float& score, int /*half*/, int n, int e) {
        score = exponent(score, n, e % 2);
      });
    }
  }

  // Exponents become probabilities.
  __device__ __forceinline__ void exponentiate(Scores<Config>& scores) {
    for_each_score<Config>(scores, [&](float& score, int /*half*/, int n, int e) {
      score = ptx::exp2_approx(score);
      sum[n][e % 2] += score;
    });
  }

  // Sums over the lanes that share a row.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
          sum[n][i] += __shfl_xor_sync(~0u, sum[n][i], step);
        }
        // Scores that are all NaN have moved no reference, and yet there were keys.
        if (offset[n][i] == kNoKey && isnan(sum[n][i])) offset[n][i] = 0.0f;
      }
    }
  }

 private:
  __device__ __forceinline__ float exponent(float score, int n, int i) const {
    return fmaf(score, lambda[n][i], offset[n][i]);
  }
  // The product is rounded as the reference was, which it may equal: then 0 is left of them, not
  // what rounding made of the reference.
  __device__ __forceinline__ float rounded_exponent(float score, int n, int i) const {
    return __fadd_rn(__fmul_rn(score, lambda[n][i]), offset[n][i]);
  }

  __device__ __forceinline__ static float largest(const Scores<Config>& scores, int n, int i) {
    return fmaxf(fmaxf(scores[0][n][i], scores[0][n][i + 2]),
                 fmaxf(scores[1][n][i], scores[1][n][i + 2]));
  }

  template <class Output>
  __device__ __forceinline__ void move_references(const Scores<Config>& scores, Output& output) {
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float most = __fmul_rn(largest(scores, n, i), lambda[n][i]);
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
          most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
        }
        // Hidden keys alone leave the offset; a NaN of a score shows in the sum.
        const float lower = most == __uint_as_float(0xFF800000u)
                                ? offset[n][i]
                                : fminf(offset[n][i], kHeadroom - most);
        const float factor = ptx::exp2_approx(lower - offset[n][i]);
        offset[n][i] = lower;
        sum[n][i] *= factor;
        output.rescale(n, i, factor);
        has_large = has_large || (lower != kNoKey && fabsf(lower) > 0x1p20f);
      }
    }
    has_large = __any_sync(~0u, has_large);
  }
};

}  // namespace mpfa::kernels
