// The approximate functions of PTX (ISA, sections Floating Point Instructions and Half Precision
// Floating Point Instructions: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, div).
//
// The ISA bounds their errors, and a GPU's bits are its own. Here results are those of double
// precision rounded once, within 0.501 ulp of the exact ones: inside of all of the ISA's bounds, so
// that a program may not be tested for the bits of one GPU. Special values follow the ISA's tables.
// f32 results that are NaN are 0x7FFFFFFF.
//
// kFtz is .ftz. What kernels call in their inner loops is here and free of branches, so that a loop
// over lanes becomes vector code; the rest is in the source file.
#pragma once

#include <cmath>
#include <cstdint>

#include "mpfa/formats.h"
#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/resize.h"
#include "sim/numerics/rounding.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

// ---- ex2 ----------------------------------------------------------------------------------------

// 2^x with a relative error below 2^-39; beyond +-200 as there, which is beyond f32.
MPFA_SIM_LANE constexpr double exp2_of(float x) {
  double clamped = x > -200.0f ? x : -200.0f;  // a NaN becomes -200
  clamped = clamped < 200.0 ? clamped : 200.0;
  // Adding 1.5 * 2^52 leaves the nearest integer in the sum's low bits.
  constexpr double kToInteger = 0x1.8p52;
  const double shifted = clamped + kToInteger;
  const double fraction = clamped - (shifted - kToInteger);  // exact, within +-0.5
  // Interpolates 2^fraction at Chebyshev's nodes.
  double power = 1.3255224878668816975e-6;
  power = power * fraction + 1.5310079402249297437e-5;
  power = power * fraction + 1.5403455852453839442e-4;
  power = power * fraction + 1.3333450568000645685e-3;
  power = power * fraction + 9.6181291594025581885e-3;
  power = power * fraction + 5.5504109412059329931e-2;
  power = power * fraction + 2.4022650695812988210e-1;
  power = power * fraction + 6.9314718054593345493e-1;
  power = power * fraction + 1.0;
  const uint64_t integer = bits_of(shifted) - bits_of(kToInteger);
  return from_bits<double>(bits_of(power) + (integer << 52));
}

template <bool kFtz>
MPFA_SIM_LANE constexpr float ex2_approx(float x) {
  const auto power = static_cast<float>(exp2_of(x));  // a subnormal x gives 1 with and without .ftz
  const float result = kFtz ? flush_subnormal(power) : power;
  return is_nan(x) ? from_bits<float>(FloatType<float>::kNan) : result;
}

// ex2.approx.f16 and ex2.approx.ftz.bf16: kFtz is true for bf16.
template <bool kFtz, class H>
MPFA_SIM_LANE constexpr H half_ex2_approx(H x) {
  const float wide = widened(x);
  const H power = narrowed<H>(exp2_of(wide), Rounding::kNearestEven);
  const H result = kFtz ? flush_subnormal(power) : power;
  return is_nan(x) ? from_bits<H>(FloatType<H>::kNan) : result;
}

// ---- lg2 ----------------------------------------------------------------------------------------

// log2(x) of a positive finite x, with a relative error below 2^-39.
MPFA_SIM_LANE constexpr double log2_of(float x) {
  // x = 2^exponent * m with m in [0.7071, 1.4142); every float is normal in double.
  constexpr uint64_t kRootHalf = 0x3FE6A09E00000000;  // 0.7071
  const uint64_t bits = bits_of(double{x});
  const uint64_t field = (bits - kRootHalf) & 0xFFF0000000000000u;
  const double m = from_bits<double>(bits - field);
  // The field's signed value as a double: put below 1.5 * 2^52, whose low bits it moves.
  const uint64_t biased = (field >> 52) ^ 0x800u;
  const double exponent = from_bits<double>(biased | bits_of(0x1.0p52)) - (0x1.0p52 + 2048.0);
  // log2(m) = 2 / ln 2 * atanh(s).
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double series = 2.2195308321368667e-1;
  series = series * square + 2.6230818925253880e-1;
  series = series * square + 3.2059889797532520e-1;
  series = series * square + 4.1219858311113240e-1;
  series = series * square + 5.7707801635558530e-1;
  series = series * square + 9.6179669392597560e-1;
  series = series * square + 2.8853900817779268;
  return exponent + series * s;
}

template <bool kFtz>
MPFA_SIM_LANE constexpr float lg2_approx(float a) {
  const float x = kFtz ? flush_subnormal(a) : a;
  const uint32_t magnitude = magnitude_bits(x);
  auto result = static_cast<float>(log2_of(from_bits<float>(magnitude)));
  result = magnitude == FloatType<float>::kInfinity ? x : result;
  result = is_negative(x) || is_nan(x) ? from_bits<float>(FloatType<float>::kNan) : result;
  return magnitude == 0 ? -from_bits<float>(FloatType<float>::kInfinity) : result;  // -0 too
}

// ---- rcp, sqrt, rsqrt, div ----------------------------------------------------------------------

template <bool kFtz>
MPFA_SIM_LANE float rcp_approx(float a) {
  return float_rcp<ArithmeticOptions{.ftz = kFtz}>(a);
}

template <bool kFtz>
MPFA_SIM_LANE float sqrt_approx(float a) {
  return float_sqrt<ArithmeticOptions{.ftz = kFtz}>(a);
}

template <bool kFtz>
MPFA_SIM_LANE float rsqrt_approx(float a) {
  const double x = kFtz ? flush_subnormal(a) : a;
  return canonical(static_cast<float>(1.0 / std::sqrt(x)));  // never subnormal
}

// a * (1 / b), so that for |b| above 2^126 a reciprocal that is flushed counts as zero. For
// subnormal b without .ftz the ISA promises nothing; the quotient is right here.
template <bool kFtz>
MPFA_SIM_LANE float div_approx(float a, float b) {
  const float quotient = float_div<ArithmeticOptions{.ftz = kFtz}>(a, b);
  const uint32_t magnitude = magnitude_bits(b);
  constexpr uint32_t kLargest = 0x7E800000;  // 2^126
  const bool huge = magnitude > kLargest && magnitude < FloatType<float>::kInfinity;
  const float dividend = kFtz ? flush_subnormal(a) : a;
  const float zero = from_bits<float>(bits_of(b) & FloatType<float>::kSign);
  return huge ? canonical(dividend * zero) : quotient;
}

// "Full range": the quotient, special values as IEEE 754 has them.
template <bool kFtz>
MPFA_SIM_LANE float div_full(float a, float b) {
  return float_div<ArithmeticOptions{.ftz = kFtz}>(a, b);
}

// ---- Not hot ------------------------------------------------------------------------------------

float sin_approx(float a, bool ftz);
float cos_approx(float a, bool ftz);
float tanh_approx(float a);
Fp16 tanh_approx(Fp16 a);
Bf16 tanh_approx(Bf16 a);

// rsqrt.approx.f64.
double rsqrt_approx(double a);
// Of the operand's upper 32 bits, and only such bits in the result; which is rounded to nearest. A
// NaN becomes 0x7FFFFFFF00000000.
double rcp_approx_ftz(double a);
double rsqrt_approx_ftz(double a);

}  // namespace mpfa::sim
