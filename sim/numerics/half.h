// Arithmetic on f16 and bf16: add, sub, mul and fma, rounded once, to nearest even, the only mode
// that PTX has for them (ISA, section Half Precision Floating-Point Instructions). fma's .oob is
// not here: the ISA does not give the NaN that it looks for.
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
  const H rounded = narrowed<H>(x, Rounding::kNearestEven);
  const H flushed = kOptions.ftz ? flush_subnormal(rounded) : rounded;
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

template <ArithmeticOptions kOptions = ArithmeticOptions{}, class H>
MPFA_SIM_LANE constexpr H half_fma(H a, H b, H c) {
  const double product = double{half_operand<kOptions>(a)} * half_operand<kOptions>(b);
  const double sum = add_to_odd(product, half_operand<kOptions>(c));
  return half_result<H, kOptions>(float_to_odd(sum));
}

}  // namespace mpfa::sim
