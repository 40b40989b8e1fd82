// The residual's codes by tensor core. Their dot products are defined as FP32 sums of one order
// (docs/spec.md, section 2, "Bits"), but e4m3 keeps four bits of them: a product of another order
// with a bound on its error nearly always tells the same code, and says when it does not.
#pragma once

#include <limits>

#include "kernels/any/append/input.cuh"
#include "kernels/ptx/convert.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/quantize.cuh"

namespace mpfa::kernels {

// Two values as FP16 and what that leaves of them, likewise: within 2^-22 of their size or 2^-25.
struct SplitPair {
  uint32_t high, low;
};

__device__ __forceinline__ SplitPair split_pair(float x, float y) {
  const uint32_t high = ptx::f16x2(x, y);
  return {high, ptx::f16x2(__fsub_rn(x, ptx::low_f16(high)), __fsub_rn(y, ptx::high_f16(high)))};
}

// The basis of one KV head and row of statistics as operand B of mma.m16n8k16, for a CTA.
//
// A lane's block of a row of errors is operand A: values 4 s, ..., 4 s + 3 in step s, their high
// parts in the lane's row g, the low ones in row g + 8. With d = 128 the rows of A are halves of
// rows, so that each half of the basis is multiplied with all of them and counts for one half.
template <int kDim>
struct BasisOperand {
  static constexpr int kHalves = kDim / 64;
  static constexpr int kSteps = 4;
  static constexpr int kColumns = 8;  // of one product: values of the residual
  static constexpr int kTiles = 2;
  static constexpr int kMaxWarps = 4;
  static_assert(kAppendWarps <= kMaxWarps);

  uint4 parts[kTiles][kHalves][kSteps][32];  // a lane's b0, b1 of the high parts, of the low ones
  float4 squares[kTiles][kColumns];          // |U_j|^2, a summand for each warp

  // All threads of a CTA; a barrier must follow. `stride`: from one vector to the next.
  __device__ __forceinline__ void fill(const float* basis, int64_t stride, int rank, bool vectors) {
    const int warp = threadIdx.x / 32;
    const int warps = blockDim.x / 32;
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int tile = 0; tile * kColumns < rank; ++tile) {
      const int j = tile * kColumns + lane / 4;
      const float* from = basis + j * stride + lane % 4 * kNvfp4BlockSize;
      const auto is_own = [&](int i) { return i % warps == warp; };
      float4 u[kHalves * kSteps];  // all reads before the first use
#pragma unroll
      for (int i = 0; i < kHalves * kSteps; ++i) {
        u[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (is_own(i) && j < rank) u[i] = load4(from + i / kSteps * 64 + i % kSteps * 4, vectors);
      }
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kHalves * kSteps; ++i) {
        if (!is_own(i)) continue;
        const float4 x = u[i];
        const SplitPair a = split_pair(x.x, x.y);
        const SplitPair b = split_pair(x.z, x.w);
        parts[tile][i / kSteps][i % kSteps][lane] = make_uint4(a.high, b.high, a.low, b.low);
        sum += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (lane % 4 != 0) continue;
      auto* to = reinterpret_cast<float*>(&squares[tile][lane / 4]);
      to[warp] = sum;
      for (int i = warp + warps; i < kMaxWarps; i += warps) to[i] = 0.0f;
    }
  }

  // |U_j|
  __device__ __forceinline__ float norm_of(int tile, int column) const {
    const float4 sums = squares[tile][column];
    return ptx::sqrt_approx(sums.x + sums.y + sums.z + sums.w);
  }

 private:
  static __device__ __forceinline__ float4 load4(const float* from, bool vectors) {
    if (vectors) return __ldg(reinterpret_cast<const float4*>(from));
    return make_float4(__ldg(from), __ldg(from + 1), __ldg(from + 2), __ldg(from + 3));
  }
};

// A lane's block of E as operand A, and |E| of the row.
struct SplitBlock {
  // lanes: of a row.
  __device__ __forceinline__ SplitBlock(const float (&error)[kNvfp4BlockSize], int lanes) {
    float square = 0.0f;
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; i += 2) {
      pairs[i / 2] = split_pair(error[i], error[i + 1]);
      square = __fmaf_rn(error[i + 1], error[i + 1], __fmaf_rn(error[i], error[i], square));
    }
    for (int step = 1; step < lanes; step *= 2) square += __shfl_xor_sync(~0u, square, step);
    norm = ptx::sqrt_approx(square);
  }

  SplitPair pairs[kNvfp4BlockSize / 2];
  float norm;
};

// A code of the residual and whether it is surely the one of the exact dot product.
struct RoughCode {
  uint32_t code;
  bool is_sure;
};

__device__ __forceinline__ RoughCode rough_code(float dot, float basis_norm, float error_norm,
                                                float p_scale) {
  // In 2^-24 of |U_j| |E|: 44 for what tensor cores may drop when they align the summands of two
  // products of sixteen to the largest, 8 for the operands' own rounding, 6 for sums of products, 8
  // for the roundings of the sum as it is defined; 6 to spare. Low parts may be off by 2^-25 too,
  // whatever the other factor.
  constexpr float kRelative = 72 * 0x1p-24f;
  constexpr float kAbsolute = 0x1p-21f;  // 2^-25 sqrt(d)
  const float dot_bound =
      kRelative * basis_norm * error_norm + kAbsolute * (basis_norm + error_norm);
  const float inverse = ptx::reciprocal_approx(p_scale);
  const float quotient = dot * inverse;
  const float bound = dot_bound * fabsf(inverse) + fabsf(quotient) * 0x1p-20f;
  const uint32_t codes = ptx::e4m3x2(quotient - bound, quotient + bound);
  // Without a bound there is no answer: NaN, infinities, and zeros, whose sign is not known.
  const bool is_bounded = bound > 0.0f && bound < std::numeric_limits<float>::infinity();
  return {codes & 0xFFu, is_bounded && (codes & 0xFFu) == codes >> 8};
}

// The dot products that a lane gets of a row's eight: those of columns 2 t and 2 t + 1 of its part
// of the row, or one of them for the whole row.
template <int kDim>
struct OwnDots {
  static constexpr int kCount = 2 / BasisOperand<kDim>::kHalves;
  float values[kCount];

  static __device__ __forceinline__ int column(int lane, int i) {
    return 2 * (lane % 4) + (kCount == 1 ? lane / 4 % 2 : i);
  }
};

template <int kDim>
__device__ __forceinline__ OwnDots<kDim> rough_dots(const SplitBlock& error,
                                                    const BasisOperand<kDim>& basis, int tile,
                                                    int lane) {
  constexpr int kHalves = BasisOperand<kDim>::kHalves;
  float2 sums[kHalves] = {};
#pragma unroll
  for (int step = 0; step < BasisOperand<kDim>::kSteps; ++step) {
    const SplitPair& first = error.pairs[2 * step];
    const SplitPair& second = error.pairs[2 * step + 1];
    const uint32_t a[4] = {first.high, first.low, second.high, second.low};
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const uint4 b = basis.parts[tile][half][step][lane];
      float c[4] = {};  // from 0 in each step: what is dropped is in proportion to the sum
      ptx::mma_f16(c, a, b.x, b.y);
      ptx::mma_f16(c, a, b.z, b.w);
      sums[half].x += c[0] + c[2];
      sums[half].y += c[1] + c[3];
    }
  }
  if constexpr (kHalves == 1) {
    return {{sums[0].x, sums[0].y}};
  } else {  // the lane with the other half of the row gets the other column
    const bool is_upper = lane / 4 % 2 == 1;
    const float2 own = is_upper ? sums[1] : sums[0];
    const float given = is_upper ? own.x : own.y;
    return {{(is_upper ? own.y : own.x) + __shfl_xor_sync(~0u, given, 4)}};
  }
}

}  // namespace mpfa::kernels
