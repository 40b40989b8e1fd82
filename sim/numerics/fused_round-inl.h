// Rounding of the exact sums of fused dot-adds, given as doubles.
// Per-target include guard.
#if defined(MPFA_SIM_NUMERICS_FUSED_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_SIM_NUMERICS_FUSED_ROUND_INL_H_
#undef MPFA_SIM_NUMERICS_FUSED_ROUND_INL_H_
#else
#define MPFA_SIM_NUMERICS_FUSED_ROUND_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "sim/numerics/dot_add_model.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF64 = hn::ScalableTag<double>;
using DU64 = hn::RebindToUnsigned<DF64>;
using DI64 = hn::RebindToSigned<DF64>;
// As many 32-bit lanes as there are of 64 bits.
using DI32Half = hn::Rebind<int32_t, DF64>;
using DU32Half = hn::Rebind<uint32_t, DF64>;
using VI32Half = hn::Vec<DI32Half>;
using VF64 = hn::Vec<DF64>;
using VU64 = hn::Vec<DU64>;
using VI64 = hn::Vec<DI64>;

// 2^exponent, of normal doubles.
HWY_INLINE VF64 power_of_two(VI64 exponent) {
  return hn::BitCast(DF64(), hn::ShiftLeft<52>(hn::Add(exponent, hn::Set(DI64(), int64_t{1023}))));
}

// The sign of x at bit kAt, none for a magnitude of 0: what rounds to zero is +0.
template <int kAt>
HWY_INLINE VU64 with_sign(VF64 x, VU64 magnitude) {
  const DU64 du;
  const VU64 sign = hn::ShiftLeft<kAt>(hn::ShiftRight<63>(hn::BitCast(du, x)));
  return hn::IfThenElse(hn::Eq(magnitude, hn::Zero(du)), magnitude, hn::Or(magnitude, sign));
}

// f32 bits of x, truncated toward zero to those of `kept`; too large ones become infinity.
HWY_INLINE VU64 truncate_to_f32(VF64 x, uint64_t kept) {
  const DF64 df;
  const DU64 du;
  const VF64 magnitude = hn::Abs(x);
  const VU64 normal = hn::Sub(hn::ShiftRight<29>(hn::BitCast(du, magnitude)),
                              hn::Set(du, uint64_t{1023 - 127} << 23));
  // A subnormal is its multiple of the smallest one.
  const VU64 subnormal = hn::BitCast(
      du,
      hn::PromoteTo(DI64(), hn::DemoteTo(DI32Half(), hn::Mul(magnitude, hn::Set(df, 0x1p149)))));
  const auto is_subnormal = hn::RebindMask(du, hn::Lt(magnitude, hn::Set(df, 0x1p-126)));
  const auto is_infinite = hn::RebindMask(du, hn::Ge(magnitude, hn::Set(df, 0x1p128)));
  const VU64 finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  const VU64 bits = hn::IfThenElse(is_infinite, hn::Set(du, uint64_t{0x7F800000}), finite);
  return with_sign<31>(x, hn::And(bits, hn::Set(du, kept)));
}

// f16 bits of x, rounded to nearest even.
HWY_INLINE VU64 round_to_f16(VF64 x) {
  const DF64 df;
  const DU64 du;
  const VF64 magnitude = hn::Abs(x);
  const VU64 bits = hn::BitCast(du, magnitude);
  const VU64 odd = hn::And(hn::ShiftRight<42>(bits), hn::Set(du, uint64_t{1}));
  const VU64 nearest = hn::Add(bits, hn::Add(odd, hn::Set(du, (uint64_t{1} << 41) - 1)));
  const VU64 normal = hn::Sub(hn::ShiftRight<42>(nearest), hn::Set(du, uint64_t{1023 - 15} << 10));
  // At 2^52, a double's lowest bit is worth 1: the addition rounds to multiples of the smallest
  // subnormal.
  const VU64 subnormal = hn::And(
      hn::BitCast(du, hn::Add(hn::Mul(magnitude, hn::Set(df, 0x1p24)), hn::Set(df, 0x1p52))),
      hn::Set(du, uint64_t{0xFFF}));
  const auto is_subnormal = hn::RebindMask(du, hn::Lt(magnitude, hn::Set(df, 0x1p-14)));
  // Halfway between the largest number and the one that would follow it.
  const auto is_infinite = hn::RebindMask(du, hn::Ge(magnitude, hn::Set(df, 65520.0)));
  const VU64 finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  return with_sign<15>(x, hn::IfThenElse(is_infinite, hn::Set(du, uint64_t{0x7C00}), finite));
}

// Bits of an f32 of which `fraction_bits` are kept.
HWY_INLINE uint64_t kept_bits(int fraction_bits) {
  return 0xFFFFFFFFu & ~((uint64_t{1} << (23 - fraction_bits)) - 1);
}

// `sum` * 2^`exponent` in the accumulator's type, to 32-bit containers at `out`.
HWY_INLINE void store_rounded(const DotAddModel& model, VF64 sum, VI64 exponent, uint32_t* out) {
  const VF64 x = hn::Mul(sum, power_of_two(exponent));
  const VU64 bits = model.accumulator == AccumulatorType::kF16
                        ? round_to_f16(x)
                        : truncate_to_f32(x, kept_bits(model.result_fraction_bits));
  hn::StoreU(hn::TruncateTo(DU32Half(), bits), DU32Half(), out);
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
