// Arithmetic on f32 and f64 in the four IEEE 754 rounding modes: the PTX instructions add, sub,
// mul, fma, div, rcp and sqrt. The FP environment stays as it is (round to nearest, subnormals on).
//
// Sums and products of f32 in .rz .rm .rp are made in double, rounded to odd (to the neighbour with
// an odd significand where it is inexact). With two bits more than the target, rounding that again
// in any mode gives what one rounding of the exact result would.
//
// NaN results: f32 gives 0x7FFFFFFF, as GPUs do; the ISA leaves it open. f64 keeps payloads, as the
// ISA says; on an H200 those of b, else of fma's c, else of a.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/numerics/exact.h"
#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

// The modifiers of an arithmetic instruction. .ftz is for f32 and f16; .sat not for f64; .relu for
// f16 and bf16 (half.h), and so is .oob, of fma.
struct ArithmeticOptions {
  Rounding rounding = Rounding::kNearestEven;
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool oob = false;
};

// value + error, of which value is the nearest double, rounded to odd. A NaN error is none.
MPFA_SIM_LANE constexpr double round_to_odd(double value, double error) {
  const uint64_t bits = bits_of(value);
  const bool inexact = error > 0 || error < 0;
  const bool outward = (error > 0) == !is_negative(value);
  const uint64_t step = inexact && (bits & 1) == 0 ? 1 : 0;
  return from_bits<double>(outward ? bits + step : bits - step);
}

// a + b, rounded to odd: the error of a sum is a double (Knuth's two-sum).
MPFA_SIM_LANE constexpr double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  return round_to_odd(sum, error);
}

// The float that is x rounded to odd.
MPFA_SIM_LANE constexpr float float_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const double error = x - nearest;
  const uint32_t bits = bits_of(nearest);
  const bool inexact = error > 0 || error < 0;
  const bool outward = (error > 0) == !is_negative(nearest);
  const uint32_t step = inexact && (bits & 1) == 0 ? 1 : 0;
  return from_bits<float>(outward ? bits + step : bits - step);
}

// What the nearest F becomes in a directed mode, if it is above or below what is rounded.
template <class F>
MPFA_SIM_LANE constexpr F directed(F nearest, bool above, bool below, Rounding mode) {
  const auto bits = bits_of(nearest);
  const bool negative = is_negative(nearest);
  const bool wrong = mode == Rounding::kUp     ? below
                     : mode == Rounding::kDown ? above
                                               : (negative ? below : above);
  const bool outward = mode != Rounding::kZero && negative == (mode == Rounding::kDown);
  const decltype(bits_of(nearest)) step = wrong ? 1 : 0;
  return from_bits<F>(outward ? bits + step : bits - step);
}

// The float that is x rounded; not in kNearestAway, which is for tf32 alone.
MPFA_SIM_LANE constexpr float float_rounded(double x, Rounding mode) {
  const auto nearest = static_cast<float>(x);
  if (mode == Rounding::kNearestEven) return nearest;
  return directed(nearest, nearest > x, nearest < x, mode);
}

// A sum that is exactly zero is negative in .rm, unless both terms are +0.
MPFA_SIM_LANE constexpr double with_zero_sign(double sum, double a, double b, Rounding mode) {
  const bool negative_zero =
      mode == Rounding::kDown && sum == 0 && (is_negative(a) || is_negative(b));
  return negative_zero ? -0.0 : sum;
}

MPFA_SIM_LANE float add_rounded(float a, float b, Rounding mode) {
  if (mode == Rounding::kNearestEven) return a + b;
  return float_rounded(with_zero_sign(add_to_odd(a, b), a, b, mode), mode);
}

MPFA_SIM_LANE float mul_rounded(float a, float b, Rounding mode) {
  if (mode == Rounding::kNearestEven) return a * b;
  return float_rounded(double{a} * b, mode);  // 48 bits at most: exact
}

MPFA_SIM_LANE float fma_rounded(float a, float b, float c, Rounding mode) {
  if (mode == Rounding::kNearestEven) return __builtin_fmaf(a, b, c);
  const double product = double{a} * b;
  return float_rounded(with_zero_sign(add_to_odd(product, c), product, c, mode), mode);
}

// Quotients and roots are made in double and not rounded to odd: one that is no float differs from
// every float by at least 2^-49 of itself, so that its nearest double, within 2^-53, stays on the
// same side of all of them.
MPFA_SIM_LANE float div_rounded(float a, float b, Rounding mode) {
  if (mode == Rounding::kNearestEven) return a / b;
  return float_rounded(double{a} / b, mode);
}

MPFA_SIM_LANE float sqrt_rounded(float a, Rounding mode) {
  if (mode == Rounding::kNearestEven) return std::sqrt(a);
  return float_rounded(std::sqrt(double{a}), mode);
}

inline double double_rounded(const Exact& value, Rounding mode) {
  return from_bits<double>(round_exact(kF64, value, mode));
}

MPFA_SIM_LANE double add_rounded(double a, double b, Rounding mode) {
  if (mode == Rounding::kNearestEven || !is_finite(a) || !is_finite(b)) return a + b;
  const double sum = a + b;
  if (sum != 0 && __builtin_fabs(sum) < 0x1p1022) {
    // What rounding has taken, exactly (Knuth, TAOCP 4.2.2, theorem C).
    const double rest = sum - a;
    const double error = (a - (sum - rest)) + (b - rest);
    return directed(sum, error<0, error> 0, mode);
  }
  return double_rounded(exact_sum(exact_value(a), exact_value(b), mode), mode);
}

MPFA_SIM_LANE double mul_rounded(double a, double b, Rounding mode) {
  if (mode == Rounding::kNearestEven || !is_finite(a) || !is_finite(b)) return a * b;
  const double product = a * b;
  const double size = __builtin_fabs(product);
  if (size > 0x1p-960 && size < 0x1p1022) {
    const double error = __builtin_fma(a, b, -product);  // no bit of it is too small for a double
    return directed(product, error<0, error> 0, mode);
  }
  return double_rounded(exact_product(exact_value(a), exact_value(b)), mode);
}

MPFA_SIM_LANE double fma_rounded(double a, double b, double c, Rounding mode) {
  const bool finite = is_finite(a) && is_finite(b) && is_finite(c);
  if (mode == Rounding::kNearestEven || !finite) return __builtin_fma(a, b, c);
  const Exact product = exact_product(exact_value(a), exact_value(b));
  return double_rounded(exact_sum(product, exact_value(c), mode), mode);
}

MPFA_SIM_LANE double div_rounded(double a, double b, Rounding mode) {
  const bool plain = !is_finite(a) || !is_finite(b) || b == 0;
  if (mode == Rounding::kNearestEven || plain) return a / b;
  return double_rounded(exact_quotient(exact_value(a), exact_value(b)), mode);
}

MPFA_SIM_LANE double sqrt_rounded(double a, Rounding mode) {
  const bool plain = !is_finite(a) || a <= 0;
  if (mode == Rounding::kNearestEven || plain) return std::sqrt(a);
  return double_rounded(exact_root(exact_value(a)), mode);
}

// An operand and a result under the modifiers. f64 has none, and keeps its NaNs.
template <ArithmeticOptions kOptions>
MPFA_SIM_LANE constexpr float float_operand(float x) {
  return kOptions.ftz ? flush_subnormal(x) : x;
}
template <ArithmeticOptions kOptions>
MPFA_SIM_LANE constexpr double float_operand(double x) {
  return x;
}
template <ArithmeticOptions kOptions>
MPFA_SIM_LANE constexpr float float_result(float x) {
  const float flushed = kOptions.ftz ? flush_subnormal(x) : x;
  return kOptions.sat ? saturate(flushed) : canonical(flushed);
}
template <ArithmeticOptions kOptions>
MPFA_SIM_LANE constexpr double float_result(double x) {
  return x;
}

// What .ftz does with a result that is not exact: it looks, as an H200 does (the ISA leaves it
// open), at the result that would be if exponents had no end. `exact` is correct to as many bits as
// float_rounded() needs.
MPFA_SIM_LANE constexpr float flush_tiny(float rounded, double exact, Rounding mode) {
  const float enlarged = float_rounded(exact * 0x1p64, mode);
  const bool tiny = from_bits<float>(magnitude_bits(enlarged)) < 0x1p-62f;
  return from_bits<float>(tiny ? bits_of(rounded) & FloatType<float>::kSign : bits_of(rounded));
}

// A result of f64 whose operands may be NaN, the later ones first.
MPFA_SIM_LANE constexpr double last_nan(double result, double b, double a) {
  const double of_a = is_nan(a) ? returned_nan(a) : result;
  return is_nan(b) ? returned_nan(b) : of_a;
}

// The instructions, for float and double: float_add<ArithmeticOptions{.ftz = true}>(a, b).
// Sums that are tiny are exact.
template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE float float_add(float a, float b) {
  return float_result<kOptions>(
      add_rounded(float_operand<kOptions>(a), float_operand<kOptions>(b), kOptions.rounding));
}
template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE double float_add(double a, double b) {
  return last_nan(add_rounded(a, b, kOptions.rounding), b, a);
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE float float_sub(float a, float b) {
  return float_add<kOptions>(a, -b);
}
template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE double float_sub(double a, double b) {
  return last_nan(add_rounded(a, -b, kOptions.rounding), b, a);
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE float float_mul(float a, float b) {
  const float x = float_operand<kOptions>(a);
  const float y = float_operand<kOptions>(b);
  const float rounded = mul_rounded(x, y, kOptions.rounding);
  if constexpr (!kOptions.ftz) return float_result<kOptions>(rounded);
  return float_result<kOptions>(flush_tiny(rounded, double{x} * y, kOptions.rounding));
}
template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE double float_mul(double a, double b) {
  return last_nan(mul_rounded(a, b, kOptions.rounding), b, a);
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE float float_fma(float a, float b, float c) {
  const float x = float_operand<kOptions>(a);
  const float y = float_operand<kOptions>(b);
  const float z = float_operand<kOptions>(c);
  const float rounded = fma_rounded(x, y, z, kOptions.rounding);
  if constexpr (!kOptions.ftz) return float_result<kOptions>(rounded);
  const double exact = add_to_odd(double{x} * y, z);
  return float_result<kOptions>(flush_tiny(rounded, exact, kOptions.rounding));
}
template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE double float_fma(double a, double b, double c) {
  const double of_addend = last_nan(fma_rounded(a, b, c, kOptions.rounding), c, a);
  return is_nan(b) ? returned_nan(b) : of_addend;
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE float float_div(float a, float b) {
  const float x = float_operand<kOptions>(a);
  const float y = float_operand<kOptions>(b);
  const float rounded = div_rounded(x, y, kOptions.rounding);
  if constexpr (!kOptions.ftz) return float_result<kOptions>(rounded);
  return float_result<kOptions>(flush_tiny(rounded, double{x} / y, kOptions.rounding));
}
template <ArithmeticOptions kOptions = ArithmeticOptions{}>
MPFA_SIM_LANE double float_div(double a, double b) {
  return div_rounded(a, b, kOptions.rounding);
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}, class F>
MPFA_SIM_LANE F float_rcp(F a) {
  return float_div<kOptions>(F{1}, a);
}

template <ArithmeticOptions kOptions = ArithmeticOptions{}, class F>
MPFA_SIM_LANE F float_sqrt(F a) {
  return float_result<kOptions>(sqrt_rounded(float_operand<kOptions>(a), kOptions.rounding));
}

}  // namespace mpfa::sim
