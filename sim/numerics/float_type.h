// The floating-point types of PTX registers as C++ types, and what modifiers do to their values:
// .ftz, .sat, .relu, .satfinite. All of it works on the bits, without branches.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mpfa/formats.h"
#include "sim/numerics/lane.h"

namespace mpfa::sim {

// .tf32: an f32 of which the low 13 bits are zero.
struct Tf32 {
  uint32_t bits;
  friend constexpr bool operator==(Tf32, Tf32) = default;
};

template <class F>
inline constexpr bool kIsFloatType = false;

// kMantissaBits: stored ones. kUnit: the lowest bit in use. kNan: what instructions return for NaN.
// The ISA leaves the NaN of f16, bf16 and f32 results open ("unspecified NaN", section
// Floating-Point Instructions); GPUs return these, and the CUDA headers' host code does too.
template <class F>
struct FloatType;

template <class BitsT, int kMantissa, BitsT kExponentMask, BitsT kNanBits, BitsT kUnitBits = 1>
struct FloatTypeOf {
  using Bits = BitsT;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr Bits kInfinity = kExponentMask;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  static constexpr Bits kUnit = kUnitBits;
  static constexpr Bits kMaxFinite = static_cast<Bits>(kExponentMask - kUnitBits);
  static constexpr Bits kMinNormal = static_cast<Bits>(Bits{1} << kMantissa);
  // 1.0 has the exponent field 011...1, of which (exponent field >> 1) has one bit too many below.
  static constexpr Bits kOne = static_cast<Bits>(kExponentMask >> 1 & kExponentMask);
  static constexpr Bits kNan = kNanBits;
};

template <>
struct FloatType<Fp16> : FloatTypeOf<uint16_t, 10, 0x7C00, 0x7FFF> {};
template <>
struct FloatType<Bf16> : FloatTypeOf<uint16_t, 7, 0x7F80, 0x7FFF> {};
template <>
struct FloatType<Tf32> : FloatTypeOf<uint32_t, 23, 0x7F800000, 0x7FFFFFFF, 0x2000> {};
template <>
struct FloatType<float> : FloatTypeOf<uint32_t, 23, 0x7F800000, 0x7FFFFFFF> {};
template <>
struct FloatType<double> : FloatTypeOf<uint64_t, 52, 0x7FF0000000000000, 0x7FF8000000000000> {};

template <>
inline constexpr bool kIsFloatType<Fp16> = true;
template <>
inline constexpr bool kIsFloatType<Bf16> = true;
template <>
inline constexpr bool kIsFloatType<Tf32> = true;
template <>
inline constexpr bool kIsFloatType<float> = true;
template <>
inline constexpr bool kIsFloatType<double> = true;

template <class F>
using BitsOf = typename FloatType<F>::Bits;

template <class F>
MPFA_SIM_LANE constexpr BitsOf<F> bits_of(F x) {
  return __builtin_bit_cast(BitsOf<F>, x);
}

template <class F>
MPFA_SIM_LANE constexpr F from_bits(BitsOf<F> bits) {
  return __builtin_bit_cast(F, bits);
}

template <class F>
MPFA_SIM_LANE constexpr BitsOf<F> magnitude_bits(F x) {
  return static_cast<BitsOf<F>>(bits_of(x) & ~FloatType<F>::kSign);
}

template <class F>
MPFA_SIM_LANE constexpr bool is_negative(F x) {
  return (bits_of(x) & FloatType<F>::kSign) != 0;
}

template <class F>
MPFA_SIM_LANE constexpr bool is_nan(F x) {
  return magnitude_bits(x) > FloatType<F>::kInfinity;
}

template <class F>
MPFA_SIM_LANE constexpr bool is_finite(F x) {
  return magnitude_bits(x) < FloatType<F>::kInfinity;
}

// x, or for a NaN the one that GPUs return.
template <class F>
MPFA_SIM_LANE constexpr F canonical(F x) {
  return is_nan(x) ? from_bits<F>(FloatType<F>::kNan) : x;
}

// What an instruction returns for its operand x, a NaN: the canonical one, but of f64 x, quiet.
template <class F>
MPFA_SIM_LANE constexpr F returned_nan([[maybe_unused]] F x) {
  constexpr auto kQuiet = static_cast<BitsOf<F>>(FloatType<F>::kNan & ~FloatType<F>::kInfinity);
  constexpr bool kKept = std::is_same_v<F, double>;
  return from_bits<F>(static_cast<BitsOf<F>>(kKept ? bits_of(x) | kQuiet : FloatType<F>::kNan));
}

// .ftz: a subnormal becomes the zero of its sign.
template <class F>
MPFA_SIM_LANE constexpr F flush_subnormal(F x) {
  const bool flush = magnitude_bits(x) < FloatType<F>::kMinNormal;
  const auto sign = static_cast<BitsOf<F>>(bits_of(x) & FloatType<F>::kSign);
  return from_bits<F>(flush ? sign : bits_of(x));
}

// .sat: within [0, 1]; a NaN and -0 become +0.
template <class F>
MPFA_SIM_LANE constexpr F saturate(F x) {
  const BitsOf<F> bits = bits_of(x);
  const BitsOf<F> capped = bits > FloatType<F>::kOne ? FloatType<F>::kOne : bits;
  return from_bits<F>(is_negative(x) || is_nan(x) ? BitsOf<F>{0} : capped);
}

// .relu: what is negative, -0 too, becomes +0; a NaN the canonical one.
template <class F>
MPFA_SIM_LANE constexpr F relu(F x) {
  return canonical(from_bits<F>(is_negative(x) && !is_nan(x) ? BitsOf<F>{0} : bits_of(x)));
}

// .satfinite: an infinity becomes the largest finite value of its sign.
template <class F>
MPFA_SIM_LANE constexpr F clamp_to_finite(F x) {
  const bool infinite = magnitude_bits(x) == FloatType<F>::kInfinity;
  return from_bits<F>(static_cast<BitsOf<F>>(
      infinite ? (bits_of(x) & FloatType<F>::kSign) | FloatType<F>::kMaxFinite : bits_of(x)));
}

}  // namespace mpfa::sim
