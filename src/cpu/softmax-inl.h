// Online softmax over one tile of scores (docs/spec.md, section 3, Algorithm 1).

#if defined(MPFA_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_SOFTMAX_INL_H_
#undef MPFA_CPU_SOFTMAX_INL_H_
#else
#define MPFA_CPU_SOFTMAX_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/attention_kernel.h"
#include "cpu/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

// 2^x for x <= 0, relative error below 2e-7 down to 2^-126, then fading out to 0 at -127 and below;
// a NaN stays a NaN.
HWY_INLINE VF exp2_nonpositive(VF x) {
  const DF df;
  const DU du;
  const VF clamped = hn::Max(hn::Set(df, -127.0f), x);
  // Adding 1.5 * 2^23 leaves the nearest integer in the sum's low bits.
  const VF magic = hn::Set(df, 12582912.0f);
  const VF sum = hn::Add(clamped, magic);
  const VF f = hn::Sub(clamped, hn::Sub(sum, magic));  // in [-0.5, 0.5]; not negative at -127
  // Minimax polynomial of 2^f on that interval.
  VF p = hn::Set(df, 1.3264709e-3f);
  p = hn::MulAdd(p, f, hn::Set(df, 9.6715111e-3f));
  p = hn::MulAdd(p, f, hn::Set(df, 5.5507340e-2f));
  p = hn::MulAdd(p, f, hn::Set(df, 2.4022242e-1f));
  p = hn::MulAdd(p, f, hn::Set(df, 6.9314700e-1f));
  p = hn::MulAdd(p, f, hn::Set(df, 1.0f));
  // Adding to the exponent field cannot borrow from the sign; 1 * 2^-127 becomes the bits of 0.
  const VU exponent = hn::ShiftLeft<23>(hn::BitCast(du, sum));
  const VF result = hn::BitCast(df, hn::Add(hn::BitCast(du, p), exponent));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// Scores to natural logits, s = softcap * tanh(x / softcap) with x = (s + bias) * unit; `factor` is
// unit / softcap.
HWY_INLINE void apply_softcap(float* HWY_RESTRICT s, int64_t n, float bias, float unit,
                              float factor, float softcap) {
  const DF df;
  const VF cap = hn::Set(df, softcap);
  // tanh is 1 to FP32's precision from 10 on; the limit keeps infinities out of its arithmetic.
  const VF limit = hn::Set(df, 20.0f);
  // Below this tanh is the identity to FP32's precision, and the quotient may be denormal.
  const VF linear = hn::Set(df, 0x1p-13f);
  for (int64_t i = 0; i < n; i += kLanes) {
    const VF sum = hn::Add(hn::Load(df, s + i), hn::Set(df, bias));
    const VF quotient = hn::Mul(sum, hn::Set(df, factor));
    const VF inside = hn::Min(limit, hn::Max(hn::Neg(limit), quotient));
    const VF bent = hn::Mul(hn::Tanh(df, inside), cap);
    const auto is_linear = hn::Lt(hn::Abs(quotient), linear);
    hn::Store(hn::IfThenElse(is_linear, hn::Mul(sum, hn::Set(df, unit)), bent), df, s + i);
  }
}

// Scores outside [begin, end) become -inf.
HWY_INLINE void apply_mask(float* HWY_RESTRICT s, int64_t n, int64_t begin, int64_t end) {
  const DF df;
  const hn::RebindToSigned<DF> di;
  const auto first = hn::Set(di, static_cast<int32_t>(begin - 1));
  const auto last = hn::Set(di, static_cast<int32_t>(end));
  const VF hidden = hn::Set(df, kNegativeInfinity);
  for (int64_t i = 0; i < n; i += kLanes) {
    const auto index = hn::Iota(di, static_cast<int32_t>(i));
    const auto visible = hn::And(hn::Gt(index, first), hn::Lt(index, last));
    hn::Store(hn::IfThenElse(hn::RebindMask(df, visible), hn::Load(df, s + i), hidden), df, s + i);
  }
}

HWY_INLINE float row_maximum(const float* HWY_RESTRICT s, int64_t n) {
  const DF df;
  VF maximum = hn::Load(df, s);
  for (int64_t i = kLanes; i < n; i += kLanes) maximum = hn::Max(maximum, hn::Load(df, s + i));
  return hn::GetLane(hn::MaxOfLanes(df, maximum));
}

struct ProbabilitySums {
  float used;   // of what P V uses
  float exact;  // before rounding
};

// Probabilities of a row to operand words. With Bf16Dot they are rounded to BF16, and the output is
// divided by the sum of the rounded ones, so that rounding a dominant one cancels in the quotient.
template <class Dot>
HWY_INLINE ProbabilitySums store_probabilities(const float* HWY_RESTRICT s, int64_t n, float lambda,
                                               float m, uint32_t* HWY_RESTRICT p) {
  const DF df;
  const DU du;
  const VF factor = hn::Set(df, lambda);
  const VF maximum = hn::Set(df, m);
  VF sum = hn::Zero(df);
  VF exact = hn::Zero(df);
  for (int64_t i = 0; i < n; i += kLanes) {
    // The difference first: with a huge lambda the products alone would overflow.
    const VF x = hn::Mul(hn::Sub(hn::Load(df, s + i), maximum), factor);
    const VF value = exp2_nonpositive(x);
    exact = hn::Add(exact, value);
    if constexpr (Dot::kPerWord == 2) {
      const VU rounded = hn::Add(hn::BitCast(du, value), hn::Set(du, 0x8000u));
      sum = hn::Add(sum, hn::BitCast(df, hn::And(rounded, hn::Set(du, 0xFFFF0000u))));
      const hn::Rebind<uint16_t, DU> d16;
      hn::Store(hn::TruncateTo(d16, hn::ShiftRight<16>(rounded)), d16,
                reinterpret_cast<uint16_t*>(p) + i);
    } else {
      hn::Store(hn::BitCast(du, value), du, p + i);
    }
  }
  const float exact_sum = hn::GetLane(hn::SumOfLanes(df, exact));
  if constexpr (Dot::kPerWord == 1) return {exact_sum, exact_sum};
  return {hn::GetLane(hn::SumOfLanes(df, sum)), exact_sum};
}

// One row of Algorithm 1: updates m and l, writes P, returns the factor for O.
template <class Dot>
HWY_INLINE float softmax_row(const float* HWY_RESTRICT s, int64_t n, RowState& state,
                             uint32_t* HWY_RESTRICT p) {
  const float tile_maximum = row_maximum(s, n);
  const float m = tile_maximum > state.m ? tile_maximum : state.m;
  // A row that has seen nothing yet: any finite reference makes every probability 0.
  const float reference = m == kNegativeInfinity ? 0.0f : m;
  const float correction = m == state.m ? 1.0f : std::exp2(state.lambda * (state.m - reference));
  const ProbabilitySums sums = store_probabilities<Dot>(s, n, state.lambda, reference, p);
  state.l = state.l * correction + sums.used;
  state.l_exact = state.l_exact * correction + sums.exact;
  state.m = m;
  return correction;
}

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
