// Scores of a warp's rows and their online softmax (docs/spec.md, section 3), with a lazy maximum:
// the reference moves only when a score exceeds it by 2^8.
#pragma once

#include "kernels/any/decode/softmax.cuh"
#include "kernels/any/prefill/tile.cuh"

namespace mpfa::kernels {

// In the layout of the tensor cores' C: [tile of rows][tile of keys][element]. Element e of lane
// (g, t) is row g + 8 (e / 2), key 2 t + e % 2.
template <class Config>
using PrefillScores = float[Config::kRowTiles][Config::kKeyTiles][4];

// Likewise, with dims instead of keys.
template <class Config>
struct PrefillOutput {
  float sums[Config::kRowTiles][Config::kDimTiles][4] = {};
};

// Calls function(score, tile of rows, half of it, key of the tile) for all of them.
template <class Config, class Function>
__device__ __forceinline__ void for_each_prefill_score(PrefillScores<Config>& scores, int lane,
                                                       Function function) {
#pragma unroll
  for (int m = 0; m < Config::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < Config::kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        function(scores[m][n][e], m, e / 2, 8 * n + lane % 4 * 2 + e % 2);
      }
    }
  }
}

// The row of the warp's that a half tile's elements belong to.
__device__ __forceinline__ int row_of_half(int m, int half, int lane) {
  return 16 * m + 8 * half + lane / 4;
}

template <class Config>
struct PrefillSoftmax {
  float lambda[Config::kRowTiles][2];  // of the tile at hand
  float offset[Config::kRowTiles][2];
  float sum[Config::kRowTiles][2];  // of this lane's keys
  // Of any lane: references so large that rounding them is seen in exponents.
  bool has_large = false;

  __device__ __forceinline__ void start() {
    for_each_half([&](int m, int half) {
      offset[m][half] = kNoKey;
      sum[m][half] = 0.0f;
    });
  }

  // Makes ready for a tile's scores: `output` is rescaled where the reference moves. `rows`: the
  // warp's.
  __device__ __forceinline__ void take(PrefillScores<Config>& scores, PrefillOutput<Config>& output,
                                       const RowScalars* rows, int lane) {
    for_each_half(
        [&](int m, int half) { lambda[m][half] = rows[row_of_half(m, half, lane)].lambda; });
    if (has_large) multiply_by_lambda(scores, lane);
    bool is_beyond = false;
    for_each_half([&](int m, int half) {
      is_beyond |= exponent(largest(scores[m], half), m, half) > kHeadroom + kLazyLimit;
    });
    if (__any_sync(~0u, is_beyond)) {
      move_references(scores, output);
      if (has_large) multiply_by_lambda(scores, lane);
    }
  }

  // Scores of 16 keys become probabilities, as the A operand of PV.
  __device__ __forceinline__ void exponentiate(PrefillScores<Config>& scores, int m, int step,
                                               uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float(&keys)[4] = scores[m][2 * step + i];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        keys[e] = ptx::exp2_approx(exponent(keys[e], m, e / 2));
        sum[m][e / 2] += keys[e];
      }
      a[2 * i] = ptx::f16x2(keys[0], keys[1]);
      a[2 * i + 1] = ptx::f16x2(keys[2], keys[3]);
    }
  }

  // Sums over the lanes that share a row.
  __device__ __forceinline__ void finish() {
    for_each_half([&](int m, int half) {
      float& total = sum[m][half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      // Scores that are all NaN have moved no reference, and yet there were keys.
      if (offset[m][half] == kNoKey && isnan(total)) offset[m][half] = 0.0f;
    });
  }

 private:
  template <class Function>
  __device__ __forceinline__ static void for_each_half(Function function) {
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) function(m, half);
    }
  }

  __device__ __forceinline__ float exponent(float score, int m, int half) const {
    return fmaf(score, lambda[m][half], offset[m][half]);
  }

  // Products are then rounded as the references were, which they may equal: 0 is left of them, not
  // what rounding made of the reference.
  __device__ __forceinline__ void multiply_by_lambda(PrefillScores<Config>& scores, int lane) {
    for_each_prefill_score<Config>(scores, lane, [&](float& score, int m, int half, int) {
      score = __fmul_rn(score, lambda[m][half]);
    });
    for_each_half([&](int m, int half) { lambda[m][half] = 1.0f; });
  }

  __device__ __forceinline__ static float largest(const float (&scores)[Config::kKeyTiles][4],
                                                  int half) {
    float most = fmaxf(scores[0][2 * half], scores[0][2 * half + 1]);
#pragma unroll
    for (int n = 1; n < Config::kKeyTiles; ++n) {
      most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    return most;
  }

  __device__ __forceinline__ void move_references(const PrefillScores<Config>& scores,
                                                  PrefillOutput<Config>& output) {
    for_each_half([&](int m, int half) {
      float most = __fmul_rn(largest(scores[m], half), lambda[m][half]);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      // Hidden keys alone leave the offset; a NaN of a score shows in the sum.
      float& reference = offset[m][half];
      const float lower =
          most == __uint_as_float(0xFF800000u) ? reference : fminf(reference, kHeadroom - most);
      const float factor = ptx::exp2_approx(lower - reference);
      reference = lower;
      sum[m][half] *= factor;
#pragma unroll
      for (int j = 0; j < Config::kDimTiles; ++j) {
        output.sums[m][j][2 * half] *= factor;
        output.sums[m][j][2 * half + 1] *= factor;
      }
      has_large = has_large || (lower != kNoKey && fabsf(lower) > 0x1p20f);
    });
    has_large = __any_sync(~0u, has_large);
  }
};

}  // namespace mpfa::kernels
