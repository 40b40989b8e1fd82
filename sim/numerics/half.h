// Arithmetic on f16 and bf16: add, sub, mul and fma, rounded once, to nearest even, the only mode
// that PTX has for them (ISA, section Half Precision Floating-Point Instructions).
#pragma once

#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/resize.h"
#include "sim/numerics/rounding.h"

namespace mpfa::sim {

// An operand as f32 and a result under the modifiers. bf16 has no .ftz.
template <ArithmeticOptions kOptions, class H>
MPFA_SIM_LANE constexpr float half_operand(H x) {
  return widened(kOptions.ftz ? flush_subnormal(x) : x);
}
template <class H, ArithmeticOptions kOptions>
MPFA_SIM_LANE constexpr H half_result(float x) {
  H flushed = narrowed<H>(x, Rounding::kNearestEven);
  if constexpr (kOptions.ftz) {
    // As flush_tiny() for f32.
    constexpr float kEnlarged = 0x1p8f;
    constexpr BitsOf<H> kLimit = FloatType<H>::kMinNormal + (8 << FloatType<H>::kMantissaBits);
    const H enlarged = narrowed<H>(x * kEnlarged, Rounding::kNearestEven);
    const auto sign = static_cast<BitsOf<H>>(bits_of(flushed) & FloatType<H>::kSign);
    flushed = from_bits<H>(magnitude_bits(enlarged) < kLimit ? sign : bits_of(flushed));
  }
  if (kOptions.sat) return saturate(flushed);
  return kOptions.relu ? relu(flushed) : flushed;
}

// Rounding a sum to f32 first changes nothing: f32 has twice the bits and two more, and no sum of
// halves is inexact where f32 is subnormal.
template <ArithmeticOptions kOptions = ArithmeticOptions{}, class H>
MPFA_SIM_LANE constexpr H half_add(H a, H b) {
  return half_result<H, kOptions>(half_operand<kOptions>(a) + half_operand<kOptions>(b));
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}, class H>
MPFA_SIM_LANE constexpr H half_sub(H a, H b) {
  return half_result<H, kOptions>(half_operand<kOptions>(a) - half_operand<kOptions>(b));
}

// A product of bf16 may be subnormal in f32: it goes there from double, rounded to odd.
template <ArithmeticOptions kOptions = ArithmeticOptions{}, class H>
MPFA_SIM_LANE constexpr H half_mul(H a, H b) {
  const double product = double{half_operand<kOptions>(a)} * half_operand<kOptions>(b);
  return half_result<H, kOptions>(float_to_odd(product));
}

// The NaN, of either sign, with which tensor copies fill what is out of bounds. The ISA does not
// give its bits; they are those of an H200.
template <class H>
MPFA_SIM_LANE constexpr bool is_out_of_bounds(H x) {
  return magnitude_bits(x) == 0x7FF7;
}

// .oob: +0 if one of the factors is out of bounds.
template <ArithmeticOptions kOptions = ArithmeticOptions{}, class H>
MPFA_SIM_LANE constexpr H half_fma(H a, H b, H c) {
  const double product = double{half_operand<kOptions>(a)} * half_operand<kOptions>(b);
  const double sum = add_to_odd(product, half_operand<kOptions>(c));
  const H result = half_result<H, kOptions>(float_to_odd(sum));
  const bool out_of_bounds = kOptions.oob && (is_out_of_bounds(a) || is_out_of_bounds(b));
  return out_of_bounds ? H{0} : result;
}

}  // namespace mpfa::sim
