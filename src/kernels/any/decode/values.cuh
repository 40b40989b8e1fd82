// Probabilities times V: O^T = V^T P^T, so that V's dims are the rows of the tensor cores' A
// operand and need no more than byte permutes.
#pragma once

#include "kernels/any/decode/softmax.cuh"
#include "kernels/any/decode/tile_ring.cuh"

namespace mpfa::kernels {

// Lane (g, t) has dims [g * kLaneDims, +kLaneDims) of rows 2t and 2t + 1 of each tile of rows: tile
// j of the dims has g * kLaneDims + 2j as its row g and the next dim as its row g + 8.
template <class Config>
struct Output {
  float sums[Config::kSteps][Config::kRowTiles][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& dims : sums) {
#pragma unroll
      for (auto& rows : dims) {
#pragma unroll
        for (float& sum : rows) sum = 0.0f;
      }
    }
  }

  // Row 2t + i of row tile n.
  __device__ __forceinline__ void rescale(int n, int i, float factor) {
#pragma unroll
    for (int j = 0; j < Config::kSteps; ++j) {
      sums[j][n][i] *= factor;
      sums[j][n][i + 2] *= factor;
    }
  }
};

// The words of V that a lane needs of one key.
template <class Config>
struct LaneValue {
  static constexpr int kWords = Config::kLaneDims / 4;
  uint32_t words[kWords];

  __device__ __forceinline__ static uint32_t address(uint32_t values, int key, int g) {
    if constexpr (kWords == 4) return values + swizzled<Config::kHeadDim>(key, 16 * g);
    return values + swizzled<Config::kHeadDim>(key, g / 2 * 16) + g % 2 * 8;
  }
  __device__ __forceinline__ void load(uint32_t address) { shared_words(address, words); }
};

// output += V^T P^T for 16 keys, whose probabilities are in the layout of scores.
template <class Config>
__device__ __forceinline__ void multiply_values(Output<Config>& output,
                                                const float (&probabilities)[Config::kRowTiles][4],
                                                uint32_t values, int half, int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
  uint32_t p[Config::kRowTiles][2];
#pragma unroll
  for (int n = 0; n < Config::kRowTiles; ++n) {
    p[n][0] = ptx::transpose_8x8(ptx::f16x2(probabilities[n][0], probabilities[n][1]));
    p[n][1] = ptx::transpose_8x8(ptx::f16x2(probabilities[n][2], probabilities[n][3]));
  }
  LaneValue<Config> keys[4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // The swizzle repeats every 8 keys.
    const uint32_t at = LaneValue<Config>::address(values, key_of_row<Config>(2 * t + i), g);
    keys[i].load(at + 16 * half * Config::kHeadDim);
    keys[i + 2].load(at + (16 * half + 8) * Config::kHeadDim);
  }
#pragma unroll
  for (int w = 0; w < LaneValue<Config>::kWords; ++w) {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      // Bytes of one dim of two keys, then of the next dim.
      const uint32_t order = pair == 0 ? 0x5140 : 0x7362;
      const uint32_t low = __byte_perm(keys[0].words[w], keys[1].words[w], order);
      const uint32_t high = __byte_perm(keys[2].words[w], keys[3].words[w], order);
      const uint32_t a[4] = {ptx::e4m3x2_to_f16x2(low), ptx::high_e4m3x2_to_f16x2(low),
                             ptx::e4m3x2_to_f16x2(high), ptx::high_e4m3x2_to_f16x2(high)};
#pragma unroll
      for (int n = 0; n < Config::kRowTiles; ++n) {
        ptx::mma_f16(output.sums[2 * w + pair][n], a, p[n][0], p[n][1]);
      }
    }
  }
}

// ---- tiles that rows see in part ----------------------------------------------------------------

// Keys of the sequence that some row sees, and those that every row sees.
struct TileView {
  int some_begin, some_end;
  int all_begin, all_end;

  // Whether all rows see all keys of the tile that starts at `first`.
  __device__ __forceinline__ bool is_whole(int first) const {
    return first >= all_begin && first + kTileTokens <= all_end;
  }
};

__device__ __forceinline__ void store_shared_words(uint32_t address, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// NaN for every element of the output whose row sees a key with a NaN in its dim.
template <class Config>
__device__ __noinline__ uint64_t find_nan_elements(uint32_t values, const RowScalars* rows, int n,
                                                   int i, int first, int lane) {
  const RowScalars& row = rows[8 * n + lane % 4 * 2 + i];
  uint64_t dims = 0;
  for (int key = 0; key < kTileTokens; ++key) {
    if (first + key < row.begin || first + key >= row.end) continue;
    LaneValue<Config> value;
    value.load(LaneValue<Config>::address(values, key, lane / 4));
#pragma unroll
    for (int w = 0; w < LaneValue<Config>::kWords; ++w) {
      const uint32_t nan = ptx::find_e4m3_nan(value.words[w]);
#pragma unroll
      for (int b = 0; b < 4; ++b) dims |= uint64_t{nan >> (8 * b + 7) & 1} << (4 * w + b);
    }
  }
  return dims;
}

template <class Config>
__device__ __forceinline__ void add_nan_values(Output<Config>& output, uint32_t values,
                                               const RowScalars* rows, int first, int lane) {
#pragma unroll
  for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint64_t dims = find_nan_elements<Config>(values, rows, n, i, first, lane);
      const float nan = __uint_as_float(0x7FFFFFFFu);
#pragma unroll
      for (int j = 0; j < Config::kSteps; ++j) {
        if ((dims >> (2 * j) & 1) != 0) output.sums[j][n][i] = nan;
        if ((dims >> (2 * j + 1) & 1) != 0) output.sums[j][n][i + 2] = nan;
      }
    }
  }
}

// Whether a lane's key has a NaN among its values.
template <class Config>
__device__ __forceinline__ bool has_nan(uint32_t row, int lane) {
  uint32_t found = 0;
  for (int at = 0; at < Config::kHeadDim; at += 16) {
    uint32_t words[4];
    shared_words(row + (at + lane * 16) % Config::kHeadDim, words);
    for (const uint32_t word : words) found |= ptx::find_e4m3_nan(word);
  }
  return found != 0;
}

// What becomes of a lane's key of a tile.
struct KeyFate {
  bool is_hidden;  // from all rows
  bool takes_nan;  // its NaN values go to the rows that see it, one by one
};

template <class Config>
__device__ __noinline__ KeyFate fate_of_key(uint32_t values, const TileView& view, int first,
                                            int lane) {
  const int key = first + lane;
  const bool is_hidden = key < view.some_begin || key >= view.some_end;
  const bool is_for_all = key >= view.all_begin && key < view.all_end;
  const bool takes_nan = !is_hidden && !(is_for_all && ptx::kConvertsE4m3) &&
                         has_nan<Config>(values + lane * Config::kHeadDim, lane);
  return {is_hidden, takes_nan};
}

// Zeros where a key is hidden, or its values are NaN.
template <class Config>
__device__ __noinline__ void blank_values(uint32_t values, KeyFate fate, int lane) {
  if (fate.is_hidden || fate.takes_nan) {
    for (int at = 0; at < Config::kHeadDim; at += 16) {
      uint32_t words[4] = {0, 0, 0, 0};
      const uint32_t place = values + lane * Config::kHeadDim + (at + lane * 16) % Config::kHeadDim;
      if (!fate.is_hidden) {
        shared_words(place, words);
        for (uint32_t& word : words) word &= ~((ptx::find_e4m3_nan(word) >> 7) * 0xFFu);
      }
      store_shared_words(place, words);
    }
#if __CUDA_ARCH__ >= 900
    ptx::fence_async_proxy();  // the next copy writes there
#endif
  }
  __syncwarp();
}

// Takes V of hidden keys out of the tile, whatever bytes they are: 0 * NaN is NaN. A NaN of a key
// that some rows see and others do not goes to the rows that see it, and is taken out as well.
template <class Config>
__device__ __forceinline__ void clean_values(Output<Config>& output, uint32_t values,
                                             const TileView& view, const RowScalars* rows,
                                             int first, int lane) {
  const KeyFate fate = fate_of_key<Config>(values, view, first, lane);
  if (__any_sync(~0u, fate.takes_nan)) {
    add_nan_values<Config>(output, values, rows, first, lane);
    __syncwarp();
  }
  blank_values<Config>(values, fate, lane);
}

}  // namespace mpfa::kernels
