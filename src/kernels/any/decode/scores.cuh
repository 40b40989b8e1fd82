// Scores of a tile of 32 keys: K^ and the residual out of shared memory, times the prepared
// queries.
#pragma once

#include "kernels/any/decode/query.cuh"
#include "kernels/ptx/mma.cuh"

namespace mpfa::kernels {

// In a tile's 16 keys of one tensor core step, row i of the step is this key. d = 64 exchanges
// every other pair, so that reads of V meet different banks (values.cuh).
template <class Config>
__device__ __forceinline__ int key_of_row(int row) {
  return Config::kHeadDim == 64 ? row ^ (row >> 1 & 1) : row;
}

// Scores in the layout of the tensor cores' C: [half of the tile][tile of rows][element].
template <class Config>
using Scores = float[2][Config::kRowTiles][4];

// Calls function(score, half, tile of rows, element) for all of them.
template <class Config, class Function>
__device__ __forceinline__ void for_each_score(Scores<Config>& scores, Function function) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) function(scores[half][n][e], half, n, e);
    }
  }
}

// The row of the segment's that an element belongs to.
__device__ __forceinline__ int row_of_element(int n, int element, int lane) {
  return 8 * n + lane % 4 * 2 + element % 2;
}

// The key of the tile that an element belongs to.
template <class Config>
__device__ __forceinline__ int key_of_element(int half, int element, int lane) {
  return 16 * half + key_of_row<Config>(lane / 4 + element / 2 * 8);
}

// B fragments of the queries: all of them stay in registers.
template <class Config>
struct QueryFragments {
  uint32_t values[Config::kRowTiles][Config::kSteps][2];
  uint32_t residual[Config::kRowTiles][2];
  uint32_t residual_factor;

  // Lane (g, t) has row g of each tile and dims [16 t, +16) (d = 64) or [32 t, +32).
  __device__ __forceinline__ void load(const std::byte* query, const SharedMemoryPlan& plan,
                                       int rank, const RowScalars* rows, int lane) {
    const int t = lane % 4;
    residual_factor = rows[0].residual_factor;
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
      const int row = 8 * n + lane / 4;
      const auto* from = reinterpret_cast<const uint4*>(query + row * Config::kHeadDim * 2) +
                         t * Config::kSteps / 2;
#pragma unroll
      for (int i = 0; i < Config::kSteps / 2; ++i) {
        const uint4 dims = from[i];  // 8 of them: 0 2 4 6 1 3 5 7
        values[n][2 * i][0] = dims.x;
        values[n][2 * i][1] = dims.y;
        values[n][2 * i + 1][0] = dims.z;
        values[n][2 * i + 1][1] = dims.w;
      }
      load_residual(n, query + plan.coefficients + row * kMaxRank * 2, rank, t);
    }
  }

 private:
  __device__ __forceinline__ void load_residual(int n, const std::byte* coefficients, int rank,
                                                int t) {
    const auto* from = reinterpret_cast<const uint16_t*>(coefficients);
    uint32_t pairs[2] = {0, 0};
    if (rank == 4) pairs[0] = from[t];
    if (rank == 8) pairs[0] = from[2 * t] | uint32_t{from[2 * t + 1]} << 16;
    if (rank == 16) {
      pairs[0] = from[4 * t] | uint32_t{from[4 * t + 1]} << 16;
      pairs[1] = from[4 * t + 2] | uint32_t{from[4 * t + 3]} << 16;
    }
    residual[n][0] = pairs[0];
    residual[n][1] = pairs[1];
  }
};

// 8 codes of one word times their scale (twice, FP16) as FP16 pairs: dims 0 2, 4 6, 1 3, 5 7. A
// code moved into the bits of e4m3 is 2^-6 of its value, subnormals included; all steps are exact.
__device__ __forceinline__ void unpack_codes(uint32_t word, uint32_t scale, uint32_t (&values)[4]) {
  const uint32_t odd = (word & 0x80808080u) | (word >> 2 & 0x1C1C1C1Cu);
  const uint32_t even = (word << 4 & 0x80808080u) | (word << 2 & 0x1C1C1C1Cu);
  values[0] = ptx::mul_f16x2(ptx::e4m3x2_to_f16x2(even), scale);
  values[1] = ptx::mul_f16x2(ptx::high_e4m3x2_to_f16x2(even), scale);
  values[2] = ptx::mul_f16x2(ptx::e4m3x2_to_f16x2(odd), scale);
  values[3] = ptx::mul_f16x2(ptx::high_e4m3x2_to_f16x2(odd), scale);
}

__device__ __forceinline__ uint32_t shared_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}
__device__ __forceinline__ uint32_t shared_half(uint32_t address) {
  uint16_t half;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address));
  return half;
}
__device__ __forceinline__ uint32_t shared_byte(uint32_t address) {
  uint16_t byte;
  asm volatile("ld.shared.u8 %0, [%1];" : "=h"(byte) : "r"(address));
  return byte;
}
__device__ __forceinline__ void shared_words(uint32_t address, uint32_t (&words)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address));
}
__device__ __forceinline__ void shared_words(uint32_t address, uint32_t (&words)[2]) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(address));
}

// A lane's codes of one key: as many words as 8-dim groups it has, and the scales of its blocks.
template <class Config>
struct LaneKey {
  static constexpr int kWords = Config::kSteps / 2;
  uint32_t words[kWords];
  uint32_t scales[kWords / 2];  // FP16, twice

  __device__ __forceinline__ void load(uint32_t keys, int key, int t) {
    shared_words(keys + key * Config::kCodesRow + t * kWords * 4, words);
    const uint32_t at = keys + Config::kScalesAt + key * Config::kScalesRow;
    if constexpr (kWords == 4) {
      const uint32_t pair = ptx::e4m3x2_to_f16x2_with_nan(shared_half(at + 2 * t));
      scales[0] = __byte_perm(pair, 0, 0x1010);
      scales[1] = __byte_perm(pair, 0, 0x3232);
    } else {
      const uint32_t pair = ptx::e4m3x2_to_f16x2_with_nan(shared_byte(at + t));
      scales[0] = __byte_perm(pair, 0, 0x1010);
    }
  }
};

// scores of 16 keys += K^ Q^T.
template <class Config>
__device__ __forceinline__ void multiply_keys(float (&scores)[Config::kRowTiles][4],
                                              const QueryFragments<Config>& queries, uint32_t keys,
                                              int half, int lane) {
  const int t = lane % 4;
  LaneKey<Config> low;
  LaneKey<Config> high;
  const int key = 16 * half + key_of_row<Config>(lane / 4);
  low.load(keys, key, t);
  high.load(keys, key + 8, t);
#pragma unroll
  for (int w = 0; w < LaneKey<Config>::kWords; ++w) {
    uint32_t of_low[4];
    uint32_t of_high[4];
    unpack_codes(low.words[w], low.scales[w / 2], of_low);
    unpack_codes(high.words[w], high.scales[w / 2], of_high);
    const uint32_t even[4] = {of_low[0], of_high[0], of_low[1], of_high[1]};
    const uint32_t odd[4] = {of_low[2], of_high[2], of_low[3], of_high[3]};
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
      ptx::mma_f16(scores[n], even, queries.values[n][2 * w][0], queries.values[n][2 * w][1]);
      ptx::mma_f16(scores[n], odd, queries.values[n][2 * w + 1][0],
                   queries.values[n][2 * w + 1][1]);
    }
  }
}

// A lane's residual values of four keys (rows g and g + 8 of the tile's halves), kRank / 4 of each,
// as FP16 pairs.
template <class Config, int kRank>
__device__ __forceinline__ void load_residual(uint32_t rows, uint32_t factor, int lane,
                                              uint32_t (&pairs)[4][2]) {
  const int t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int key = 16 * (i / 2) + key_of_row<Config>(lane / 4 + i % 2 * 8);
    const uint32_t row = rows + key * kRank;
    pairs[i][1] = 0;
    if constexpr (kRank == 4) {
      pairs[i][0] = ptx::e4m3x2_to_f16x2_with_nan(shared_byte(row + t));
    } else if constexpr (kRank == 8) {
      pairs[i][0] = ptx::e4m3x2_to_f16x2_with_nan(shared_half(row + 2 * t));
    } else {
      const uint32_t word = shared_word(row + 4 * t);
      pairs[i][0] = ptx::e4m3x2_to_f16x2_with_nan(word);
      pairs[i][1] = ptx::mul_f16x2(ptx::e4m3x2_to_f16x2_with_nan(word >> 16), factor);
    }
    pairs[i][0] = ptx::mul_f16x2(pairs[i][0], factor);
  }
}

// scores += p (U Q)^T.
template <class Config>
__device__ __forceinline__ void multiply_residual(Scores<Config>& scores,
                                                  const QueryFragments<Config>& queries,
                                                  uint32_t rows, int rank, int lane) {
  uint32_t pairs[4][2];
  if (rank == 8) {
    load_residual<Config, 8>(rows, queries.residual_factor, lane, pairs);
  } else if (rank == 16) {
    load_residual<Config, 16>(rows, queries.residual_factor, lane, pairs);
  } else {
    load_residual<Config, 4>(rows, queries.residual_factor, lane, pairs);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t a[4] = {pairs[2 * half][0], pairs[2 * half + 1][0], pairs[2 * half][1],
                           pairs[2 * half + 1][1]};
#pragma unroll
    for (int n = 0; n < Config::kRowTiles; ++n) {
      ptx::mma_f16(scores[half][n], a, queries.residual[n][0], queries.residual[n][1]);
    }
  }
}

// ---- what is not in every call ------------------------------------------------------------------

template <class Config>
__device__ __forceinline__ void add_delta(Scores<Config>& scores, uint32_t keys,
                                          const SharedMemoryPlan& plan, const RowScalars* rows,
                                          int heads, int lane) {
  for_each_score<Config>(scores, [&](float& score, int half, int n, int e) {
    const int row = row_of_element(n, e, lane);
    const int key = key_of_element<Config>(half, e, lane);
    const uint32_t bits = shared_half(keys + plan.delta + (row % heads * kTileTokens + key) * 2)
                          << 16;
    score = fmaf(__uint_as_float(bits), rows[row].delta_scale, score);
  });
}

// Within 2e-7 of tanh: softcap times that in a logit.
__device__ __forceinline__ float tanh_approx(float x) {
  return 1.0f - __fdividef(2.0f, 1.0f + ptx::exp2_approx(x * (2.0f * kLog2E)));
}

template <class Config>
__device__ __forceinline__ void cap_scores(Scores<Config>& scores, const RowScalars* rows,
                                           int lane) {
  for_each_score<Config>(scores, [&](float& score, int /*half*/, int n, int e) {
    const RowScalars& row = rows[row_of_element(n, e, lane)];
    score = tanh_approx((score + row.cap_bias) * row.cap_factor);
  });
}

template <class Config>
__device__ __forceinline__ void add_first_key(Scores<Config>& scores, const RowScalars* rows,
                                              int lane) {
  if (lane >= 4) return;  // the others have no element of key 0
#pragma unroll
  for (int n = 0; n < Config::kRowTiles; ++n) {
    scores[0][n][0] += rows[row_of_element(n, 0, lane)].first_key;
    scores[0][n][1] += rows[row_of_element(n, 1, lane)].first_key;
  }
}

// -inf where a row does not see a key; `first` is the tile's first key.
template <class Config>
__device__ __forceinline__ void mask_scores(Scores<Config>& scores, const RowScalars* rows,
                                            int first, int lane) {
  for_each_score<Config>(scores, [&](float& score, int half, int n, int e) {
    const RowScalars& row = rows[row_of_element(n, e, lane)];
    const int key = first + key_of_element<Config>(half, e, lane);
    if (key < row.begin || key >= row.end) score = __uint_as_float(0xFF800000u);
  });
}

}  // namespace mpfa::kernels
