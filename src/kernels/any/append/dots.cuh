// Dot products over a row, summed by halves (docs/spec.md, section 2, "Bits").
//
// A row is quantised with a block of sixteen values in each of its L = d / 16 lanes. For dot
// products it changes hands: lane l gets the pairs of values l + L * k, k = 0, ..., 7, so that the
// first three halvings need no other lane.
#pragma once

#include "kernels/any/append/input.cuh"

namespace mpfa::kernels {

inline constexpr int kDotsAtOnce = 4;

// A warp's rows in shared memory. Blocks, and rows of d = 128, lie further apart than they are
// long: then bank conflicts are rare, and all places of a lane are at constant distances.
template <int kDim>
struct RowExchange {
  static constexpr int kLanes = kDim / kNvfp4BlockSize;
  static constexpr int kRows = 32 / kLanes;
  static constexpr int kBlockWords = kNvfp4BlockSize + 4;
  static constexpr int kRowWords = kLanes * kBlockWords + (kLanes == 8 ? 16 : 0);

  alignas(16) float words[kRows * kRowWords];

  __device__ __forceinline__ void store(int lane, const float (&x)[kNvfp4BlockSize]) {
    float* to = words + lane / kLanes * kRowWords + lane % kLanes * kBlockWords;
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    }
  }

  // Value i of row r.
  __device__ __forceinline__ float element(int r, int i) const {
    return words[r * kRowWords + place_of(i)];
  }

  __device__ __forceinline__ void load(int lane, float (&x)[kNvfp4BlockSize]) const {
    const float* from = words + lane / kLanes * kRowWords + 2 * (lane % kLanes);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float2 pair = *reinterpret_cast<const float2*>(from + place_of(2 * kLanes * k));
      x[2 * k] = pair.x, x[2 * k + 1] = pair.y;
    }
  }

 private:
  static __device__ __forceinline__ constexpr int place_of(int i) {
    return i / kNvfp4BlockSize * kBlockWords + i % kNvfp4BlockSize;
  }
};

// Values of a vector that match RowExchange::load(). kAligned: all vectors are, to 8 bytes.
template <int kDim, bool kAligned>
__device__ __forceinline__ float2 load_pair(const float* vector, int in_row, int k) {
  constexpr int kLanes = RowExchange<kDim>::kLanes;
  const float* from = vector + 2 * in_row + 2 * kLanes * k;
  if constexpr (kAligned) return __ldg(reinterpret_cast<const float2*>(from));
  return make_float2(__ldg(from), __ldg(from + 1));
}

// Which of the four dot products a lane gets.
template <int kDim>
__device__ __forceinline__ int own_dot(int in_row) {
  return in_row / (RowExchange<kDim>::kLanes / kDotsAtOnce);
}

// x times four vectors that lie `stride` apart; only `count` of them exist, if that is less. Lane l
// of the row returns product own_dot(l), which means nothing if that is not below `count`. All
// lanes of the warp take part.
template <int kDim, bool kAligned>
__device__ __forceinline__ float four_dots_as(const float (&x)[kNvfp4BlockSize],
                                              const float* vectors, int64_t stride, int count,
                                              int in_row) {
  constexpr int kLanes = RowExchange<kDim>::kLanes;
  float2 sums[kDotsAtOnce];
#pragma unroll
  for (int j = 0; j < kDotsAtOnce; ++j) {
    float2 products[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float2 pair = load_pair<kDim, kAligned>(vectors, in_row, k);
      products[k] = {__fmul_rn(pair.x, x[2 * k]), __fmul_rn(pair.y, x[2 * k + 1])};
    }
#pragma unroll
    for (int half = 4; half >= 1; half /= 2) {
#pragma unroll
      for (int k = 0; k < half; ++k) {
        products[k].x = __fadd_rn(products[k].x, products[k + half].x);
        products[k].y = __fadd_rn(products[k].y, products[k + half].y);
      }
    }
    sums[j] = products[0];
    if (j + 1 < count) vectors += stride;
  }
  // Two halvings in which lanes also share out the products.
  int step = kLanes / 2;
#pragma unroll
  for (int n = kDotsAtOnce / 2; n >= 1; n /= 2, step /= 2) {
    const bool upper = (in_row & step) != 0;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float2 kept = upper ? sums[j + n] : sums[j];
      const float2 given = upper ? sums[j] : sums[j + n];
      sums[j].x = __fadd_rn(kept.x, __shfl_xor_sync(~0u, given.x, step));
      sums[j].y = __fadd_rn(kept.y, __shfl_xor_sync(~0u, given.y, step));
    }
  }
  if constexpr (kLanes == 8) {
    sums[0].x = __fadd_rn(sums[0].x, __shfl_xor_sync(~0u, sums[0].x, 1));
    sums[0].y = __fadd_rn(sums[0].y, __shfl_xor_sync(~0u, sums[0].y, 1));
  }
  return __fadd_rn(sums[0].x, sums[0].y);
}

// `vectors`: all vectors are aligned to 8 bytes.
template <int kDim>
__device__ __forceinline__ float four_dots(const float (&x)[kNvfp4BlockSize], const float* from,
                                           int64_t stride, int count, int in_row, bool vectors) {
  return vectors ? four_dots_as<kDim, true>(x, from, stride, count, in_row)
                 : four_dots_as<kDim, false>(x, from, stride, count, in_row);
}

}  // namespace mpfa::kernels
