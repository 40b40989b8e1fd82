// What the SIMD code shares: vector types, and the number formats' conversions to FP32 on vectors,
// with the bits that formats.h gives. Included once per target by Highway's foreach_target.h.
#if defined(MPFA_CORE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CORE_LANES_INL_H_
#undef MPFA_CORE_LANES_INL_H_
#else
#define MPFA_CORE_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "mpfa/formats.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
using VI = hn::Vec<DI>;

inline constexpr int64_t kLanes = hn::MaxLanes(DF());

HWY_INLINE VF from_bits(VU bits) { return hn::BitCast(DF(), bits); }
HWY_INLINE VU bits_of(VF x) { return hn::BitCast(DU(), x); }
HWY_INLINE VF set(float x) { return hn::Set(DF(), x); }
HWY_INLINE VU set_bits(uint32_t x) { return hn::Set(DU(), x); }
HWY_INLINE VU set_bits(float x) { return hn::Set(DU(), float_bits(x)); }

HWY_INLINE VU abs_bits(VF x) { return hn::And(bits_of(x), set_bits(0x7FFFFFFFu)); }
HWY_INLINE VU sign_bits(VF x) { return hn::And(bits_of(x), set_bits(0x80000000u)); }

// ---- Activations ------------------------------------------------------------------------------

// As many consecutive values as D has lanes, as FP32; `p` may have any alignment.
template <class D>
HWY_INLINE hn::Vec<D> load_widened(D df, const float* p) {
  return hn::LoadU(df, p);
}

template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> load_u16(D /*df*/, const void* p) {
  const hn::Rebind<uint16_t, D> d16;
  return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(d16, static_cast<const uint16_t*>(p)));
}

template <class D>
HWY_INLINE hn::Vec<D> load_widened(D df, const Bf16* p) {
  return hn::BitCast(df, hn::ShiftLeft<16>(load_u16(df, p)));
}

// Highway's own conversion loses infinity and NaN where the CPU has no instruction for it.
template <class D>
HWY_INLINE hn::Vec<D> load_widened(D df, const Fp16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto half = load_u16(df, p);
  const auto abs = hn::And(half, hn::Set(du, 0x7FFFu));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(half, abs));
  const auto normal = hn::Add(hn::ShiftLeft<13>(abs), hn::Set(du, 112u << 23));
  // 2^-14 and below: an integer times 2^-24. 65536 and above: infinity and NaN.
  const auto tiny = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, abs)), hn::Set(df, 0x1p-24f));
  const auto huge = hn::Or(normal, hn::Set(du, 0x7F800000u));
  const auto finite =
      hn::IfThenElse(hn::Lt(abs, hn::Set(du, 0x400u)), hn::BitCast(du, tiny), normal);
  const auto any = hn::IfThenElse(hn::Lt(abs, hn::Set(du, 0x7C00u)), finite, huge);
  return hn::BitCast(df, hn::Or(sign, any));
}

// ---- e4m3 and BF16 ------------------------------------------------------------------------------

// Value of the e4m3 codes 0 .. 0x7E.
HWY_INLINE VF e4m3_decode_magnitude(VU code) {
  const VU shifted = hn::ShiftLeft<20>(code);
  // (1 + m / 8) * 2^-6 - 2^-6 = m * 2^-9, without touching FP32's slow denormals.
  const VF subnormal = hn::Sub(from_bits(hn::Add(shifted, set_bits(121u << 23))), set(0x1p-6f));
  const VU normal = hn::Add(shifted, set_bits(120u << 23));
  return from_bits(hn::IfThenElse(hn::Lt(code, set_bits(8u)), bits_of(subnormal), normal));
}

// Value of any e4m3 code in the low byte of each lane; higher bits must be zero.
HWY_INLINE VF e4m3_decode(VU code) {
  const VU abs = hn::And(code, set_bits(0x7Fu));
  const VU sign = hn::ShiftLeft<24>(hn::Xor(code, abs));
  const VU value = hn::IfThenElse(hn::Eq(abs, set_bits(uint32_t{kE4m3NanCode})),
                                  set_bits(0x7FC00000u), bits_of(e4m3_decode_magnitude(abs)));
  return from_bits(hn::Or(value, sign));
}

// The upper 16 bits of numbers rounded to BF16, to nearest even, in the lanes' low halves. A NaN
// may become infinite.
HWY_INLINE VU round_to_bf16_bits(VF x) {
  const VU bits = bits_of(x);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), set_bits(1u));
  return hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, set_bits(0x7FFFu))));
}

// ---- Transposing --------------------------------------------------------------------------------

#if HWY_TARGET != HWY_SCALAR  // which has no lanes to swap

// Transposes 4x4 tiles of 32-bit lanes within every 128 bits: out[k] has, per 128 bits, the k-th
// lanes of in[0..3].
template <class D>
HWY_INLINE void transpose_quads(D d, const hn::Vec<D> (&in)[4], hn::Vec<D> (&out)[4]) {
  const hn::Repartition<uint64_t, D> d64;
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, in[0], in[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, in[2], in[3]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, in[0], in[1]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, in[2], in[3]));
  out[0] = hn::BitCast(d, hn::InterleaveLower(d64, low01, low23));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23));
  out[2] = hn::BitCast(d, hn::InterleaveLower(d64, high01, high23));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
