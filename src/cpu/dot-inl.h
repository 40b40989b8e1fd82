// Tile products of the attention kernels: a few rows of Q (or P) times a tile of K (or V).
//
// Operands are 32-bit words. Fp32Dot: a word is one float. Bf16Dot: a word is two BF16 that are
// neighbours along the summed dimension, low half first. A tile is [steps][columns] words, a step
// being one word along the summed dimension.

#if defined(MPFA_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_DOT_INL_H_
#undef MPFA_CPU_DOT_INL_H_
#else
#define MPFA_CPU_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "core/lanes-inl.h"
#include "cpu/attention_item.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Register blocking: kMaxRows * kColumnVectors accumulators, plus operands, fill the register file
// (32 registers with AVX-512, 16 before).
inline constexpr int kMaxRows = 6;
inline constexpr int kColumnVectors = kLanes == 16 ? 4 : 2;
inline constexpr int64_t kColumns = kColumnVectors * kLanes;

struct Fp32Dot {
  static constexpr int kPerWord = 1;
  static HWY_INLINE void step(VF& acc, VU a, VU b) {
    const DF df;
    acc = hn::MulAdd(hn::BitCast(df, a), hn::BitCast(df, b), acc);
  }
};

#undef MPFA_HAVE_BF16_DOT
#if HWY_TARGET == HWY_AVX3
#define MPFA_HAVE_BF16_DOT 1
struct Bf16Dot {
  static constexpr int kPerWord = 2;
  // Written in assembly because this Highway has no target with AVX512_BF16; choose_dot_kind() asks
  // the CPU first.
  static HWY_INLINE void step(VF& acc, VU a, VU b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc.raw) : "v"(a.raw), "v"(b.raw));
  }
};
#else
#define MPFA_HAVE_BF16_DOT 0
#endif

// acc[R][columns] += rows[R][steps] * tile[begin ...][columns], one block of kColumns columns.
template <class Dot, int R>
HWY_INLINE void multiply_block(VF (&acc)[R][kColumnVectors], const uint32_t* HWY_RESTRICT rows,
                               int64_t row_stride, const uint32_t* HWY_RESTRICT tile,
                               int64_t tile_stride, int steps) {
  const DU du;
  for (int s = 0; s < steps; ++s) {
    VU column[kColumnVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kColumnVectors; ++c) column[c] = hn::Load(du, tile + c * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const VU row = hn::Set(du, rows[r * row_stride + s]);
#pragma GCC unroll 4
      for (int c = 0; c < kColumnVectors; ++c) Dot::step(acc[r][c], column[c], row);
    }
    tile += tile_stride;
  }
}

template <class Dot, int R>
HWY_NOINLINE void score_rows(const uint32_t* HWY_RESTRICT q, int64_t q_stride,
                             const uint32_t* HWY_RESTRICT tile, int64_t tile_tokens,
                             const Segment* segments, int num_segments, float* HWY_RESTRICT s) {
  const DF df;
  for (int64_t t = 0; t < tile_tokens; t += kColumns) {
    VF acc[R][kColumnVectors];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumnVectors; ++c) acc[r][c] = hn::Zero(df);
    }
    const uint32_t* row_words = q;
    for (int i = 0; i < num_segments; ++i) {
      multiply_block<Dot, R>(acc, row_words, q_stride, tile + segments[i].begin * tile_tokens + t,
                             tile_tokens, segments[i].steps);
      row_words += segments[i].steps;
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumnVectors; ++c) {
        hn::Store(acc[r][c], df, s + r * tile_tokens + t + c * kLanes);
      }
    }
  }
}

// o[R][d] = o * correction + p * v, v [steps][d].
template <class Dot, int R>
HWY_NOINLINE void accumulate_rows(const uint32_t* HWY_RESTRICT p, int64_t p_stride,
                                  const uint32_t* HWY_RESTRICT tile, int64_t head_dim, int steps,
                                  const float* HWY_RESTRICT correction, float* HWY_RESTRICT o) {
  const DF df;
  for (int64_t column = 0; column < head_dim; column += kColumns) {
    VF acc[R][kColumnVectors];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const VF factor = hn::Set(df, correction[r]);
#pragma GCC unroll 4
      for (int c = 0; c < kColumnVectors; ++c) {
        acc[r][c] = hn::Mul(hn::Load(df, o + r * head_dim + column + c * kLanes), factor);
      }
    }
    multiply_block<Dot, R>(acc, p, p_stride, tile + column, head_dim, steps);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumnVectors; ++c) {
        hn::Store(acc[r][c], df, o + r * head_dim + column + c * kLanes);
      }
    }
  }
}

// Calls fn(std::integral_constant<int, rows>) for a run-time rows in 1..kMaxRows.
template <class Fn>
HWY_INLINE void with_rows(int rows, Fn&& fn) {
  switch (rows) {
    case 1:
      return fn(std::integral_constant<int, 1>());
    case 2:
      return fn(std::integral_constant<int, 2>());
    case 3:
      return fn(std::integral_constant<int, 3>());
    case 4:
      return fn(std::integral_constant<int, 4>());
    case 5:
      return fn(std::integral_constant<int, 5>());
    default:
      return fn(std::integral_constant<int, kMaxRows>());
  }
}

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
