// One step of fused dot-adds, of one row of A with a block of columns of B.
//
// All terms are 32-bit integers in units of 2^(largest exponent - fraction bits). A product is less
// than 4, so with 25 fraction bits or fewer, 16 of them sum up to less than 2^31; C's term and the
// products after the 16th go to a second sum, which only FP8 and narrower types have enough
// products to reach, whose significands leave room for C. Per-target include guard.
#if defined(MPFA_SIM_NUMERICS_FUSED_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_SIM_NUMERICS_FUSED_STEP_INL_H_
#undef MPFA_SIM_NUMERICS_FUSED_STEP_INL_H_
#else
#define MPFA_SIM_NUMERICS_FUSED_STEP_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "sim/numerics/fused_decode-inl.h"
#include "sim/numerics/fused_round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {

using DI32 = hn::ScalableTag<int32_t>;
using VI32 = hn::Vec<DI32>;

// Products that fit one 32-bit sum.
inline constexpr int kProductsPerSum = 16;
inline constexpr int kMaxProducts = 2 * kProductsPerSum;

// One row of A, at a step's first element.
struct RowStep {
  const int32_t* significand;
  const int32_t* sign;
  const int32_t* exponent;
  int length;
};

// C's elements of a row, taken apart: significands with 23 fraction bits.
struct RowStart {
  alignas(64) int32_t significand[kBlockColumns];
  alignas(64) int32_t sign[kBlockColumns];
  alignas(64) int32_t exponent[kBlockColumns];
};

// What a row's terms amount to: two sums, and the largest exponent.
struct RowSums {
  alignas(64) int32_t first[kBlockColumns];
  alignas(64) int32_t second[kBlockColumns];
  alignas(64) int32_t exponent[kBlockColumns];
};

// Returns whether an element is infinite or NaN. `columns` is padded.
HWY_INLINE bool start_row(AccumulatorType type, const uint32_t* HWY_RESTRICT c, int columns,
                          RowStart& HWY_RESTRICT start) {
  int32_t special[kBlockColumns];
  std::fill(special, special + columns, 0);
  const FloatFormat format = type == AccumulatorType::kF16 ? kF16 : kF32;
  decode_codes(format, c, columns, start.significand, start.sign, start.exponent, special);
  int32_t any = 0;
  const int up = kF32.mantissa_bits - format.mantissa_bits;
  for (int j = 0; j < columns; ++j) {
    start.significand[j] <<= up;
    any |= special[j];
  }
  return any != 0;
}

// x * 2^-(largest - exponent), truncated; x is less than 2^31 and not negative.
HWY_INLINE VI32 align_term(VI32 x, VI32 exponent, VI32 largest) {
  const DI32 d;
  return x >> hn::Min(hn::Sub(largest, exponent), hn::Set(d, 31));
}

// x where sign is 0, -x where it is -1.
HWY_INLINE VI32 apply_sign(VI32 x, VI32 sign) { return hn::Sub(hn::Xor(x, sign), sign); }

// kVectors vectors of columns, beginning with column j.
template <int kVectors>
HWY_INLINE void sum_columns(const RowStep& a, const ColumnOperands& b, const RowStart& c,
                            int fraction_bits, int j, RowSums& out) {
  const DI32 d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  VI32 largest[kVectors];
  for (int v = 0; v < kVectors; ++v) largest[v] = hn::Load(d, c.exponent + j + v * kLanes);
  for (int k = 0; k < a.length; ++k) {
    const VI32 a_exponent = hn::Set(d, a.exponent[k]);
    const int32_t* b_exponent = b.exponent + k * kBlockColumns + j;
    for (int v = 0; v < kVectors; ++v) {
      largest[v] = hn::Max(largest[v], hn::Add(a_exponent, hn::Load(d, b_exponent + v * kLanes)));
    }
  }
  const auto add_products = [&](int begin, int end, VI32* sums) HWY_ATTR {
    for (int k = begin; k < end; ++k) {
      const VI32 a_significand = hn::Set(d, a.significand[k]);
      const VI32 a_sign = hn::Set(d, a.sign[k]);
      const VI32 a_exponent = hn::Set(d, a.exponent[k]);
      const int at = k * kBlockColumns + j;
      for (int v = 0; v < kVectors; ++v) {
        const int i = at + v * kLanes;
        const VI32 product = hn::Mul(a_significand, hn::Load(d, b.significand + i));
        const VI32 exponent = hn::Add(a_exponent, hn::Load(d, b.exponent + i));
        const VI32 sign = hn::Xor(a_sign, hn::Load(d, b.sign + i));
        sums[v] = hn::Add(sums[v], apply_sign(align_term(product, exponent, largest[v]), sign));
      }
    }
  };
  VI32 first[kVectors];
  for (int v = 0; v < kVectors; ++v) first[v] = hn::Zero(d);
  add_products(0, std::min(a.length, kProductsPerSum), first);
  VI32 second[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const int i = j + v * kLanes;
    const VI32 significand = hn::Load(d, c.significand + i);
    const VI32 scaled = fraction_bits >= 23 ? hn::ShiftLeftSame(significand, fraction_bits - 23)
                                            : hn::ShiftRightSame(significand, 23 - fraction_bits);
    const VI32 term = align_term(scaled, hn::Load(d, c.exponent + i), largest[v]);
    second[v] = apply_sign(term, hn::Load(d, c.sign + i));
  }
  add_products(kProductsPerSum, a.length, second);
  for (int v = 0; v < kVectors; ++v) {
    const int i = j + v * kLanes;
    hn::Store(first[v], d, out.first + i);
    hn::Store(second[v], d, out.second + i);
    hn::Store(largest[v], d, out.exponent + i);
  }
}

// d = c + a * b over `columns` columns; c and d may be the same.
HWY_INLINE void fused_row(const DotAddModel& model, const RowStep& a, const ColumnOperands& b,
                          const RowStart& c, int columns, uint32_t* d) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(DI32()));
  RowSums sums;
  int j = 0;
  for (; j + kLanes < columns; j += 2 * kLanes) {
    sum_columns<2>(a, b, c, model.fraction_bits, j, sums);
  }
  if (j < columns) sum_columns<1>(a, b, c, model.fraction_bits, j, sums);

  const DF64 df;
  const DI32Half half;
  for (int i = 0; i < columns; i += static_cast<int>(hn::MaxLanes(df))) {
    const VF64 sum = hn::Add(hn::PromoteTo(df, hn::Load(half, sums.first + i)),
                             hn::PromoteTo(df, hn::Load(half, sums.second + i)));
    const VI64 exponent = hn::Sub(hn::PromoteTo(DI64(), hn::Load(half, sums.exponent + i)),
                                  hn::Set(DI64(), model.fraction_bits));
    store_rounded(model, sum, exponent, d + i);
  }
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
