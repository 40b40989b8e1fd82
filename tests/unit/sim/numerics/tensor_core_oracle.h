// Tensor core arithmetic in doubles: values instead of bits, so that nothing of what the simulator
// does can go wrong here in the same way.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/numerics/dot_add_model.h"

namespace mpfa::sim::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A value and the exponent that it counts as.
struct Number {
  double value = 0;
  int exponent = -126;
};

// A code with `exponent_bits` and `mantissa_bits`. Specials: 2 infinities and NaNs, 1 a NaN, 0
// none.
inline Number number(uint64_t code, int exponent_bits, int mantissa_bits, int specials) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int field = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
  const double sign = (code >> (exponent_bits + mantissa_bits) & 1) != 0 ? -1 : 1;
  const bool top = field == (1 << exponent_bits) - 1;
  if (specials == 2 && top) return {mantissa != 0 ? kNan : sign * kInfinity, 0};
  if (specials == 1 && top && mantissa == (1 << mantissa_bits) - 1) return {kNan, 0};
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  if (field != 0) return {sign * std::ldexp(1 + fraction, field - bias), field - bias};
  if (mantissa == 0) return {sign * 0.0, -126};
  return {sign * std::ldexp(fraction, 1 - bias), 1 - bias};
}

inline Number number(ElementType type, uint64_t code) {
  switch (type) {
    case ElementType::kF16:
      return number(code, 5, 10, 2);
    case ElementType::kBf16:
      return number(code, 8, 7, 2);
    case ElementType::kTf32:
      return number(code >> 13, 8, 10, 2);
    case ElementType::kE4m3:
      return number(code, 4, 3, 1);
    case ElementType::kE5m2:
      return number(code, 5, 2, 2);
    case ElementType::kE3m2:
      return number(code, 3, 2, 0);
    case ElementType::kE2m3:
      return number(code, 2, 3, 0);
    default:
      return number(code, 2, 1, 0);
  }
}

inline Number number(AccumulatorType type, uint64_t code) {
  return type == AccumulatorType::kF16 ? number(code, 5, 10, 2) : number(code, 8, 23, 2);
}

inline Number number(ScaleType type, uint8_t code) {
  if (type == ScaleType::kUe4m3) return number(code & 0x7F, 4, 3, 1);
  return {code == 0xFF ? kNan : std::ldexp(1, code - 127), code - 127};
}

// x to multiples of 2^unit, toward zero.
inline double truncated(double x, int unit) {
  return std::ldexp(std::trunc(std::ldexp(x, -unit)), unit);
}

// The bits of a result in the model's type.
inline uint64_t rounded(const DotAddModel& model, double x) {
  const bool f16 = model.accumulator == AccumulatorType::kF16;
  if (std::isnan(x)) return f16 ? 0x7FFF : 0x7FFFFFFF;
  const uint64_t sign = std::signbit(x) ? (f16 ? 0x8000 : 0x80000000) : 0;
  const double magnitude = std::fabs(x);
  if (magnitude == 0) return 0;
  if (std::isinf(x)) return sign | (f16 ? 0x7C00 : 0x7F800000);
  if (f16) {
    const int exponent = std::max(std::ilogb(magnitude), -14);
    const double kept =
        std::ldexp(std::nearbyint(std::ldexp(magnitude, 10 - exponent)), exponent - 10);
    if (kept == 0) return 0;
    if (kept >= 65536) return sign | 0x7C00;
    const int field = std::ilogb(kept) < -14 ? 0 : std::ilogb(kept) + 15;
    const double fraction = std::ldexp(kept, 24 - std::max(field - 1, 0));
    return sign |
           (static_cast<uint64_t>(std::max(field - 1, 0) << 10) + static_cast<uint64_t>(fraction));
  }
  const int exponent = std::max(std::ilogb(magnitude), -126);
  const double kept = truncated(magnitude, exponent - model.result_fraction_bits);
  if (kept >= 0x1p128) return sign | 0x7F800000;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(kept));
  return bits == 0 ? 0 : sign | bits;
}

// Terms and their exponents, fused.
inline double fused(const std::vector<Number>& terms, int fraction_bits) {
  int largest = -100000;
  for (const Number& term : terms) largest = std::max(largest, term.exponent);
  double sum = 0;
  for (const Number& term : terms) sum += truncated(term.value, largest - fraction_bits);
  return sum;
}

// One step of kFusedDotAdd or kFusedGroupAdd over [begin, end), for which codes() and scales give
// elements.
struct OracleOperands {
  std::vector<uint64_t> a;
  std::vector<uint64_t> b;
  std::vector<uint8_t> a_scales;
  std::vector<uint8_t> b_scales;
};

inline uint64_t oracle_step(const DotAddModel& model, const OracleOperands& in, size_t begin,
                            size_t end, uint64_t c_bits) {
  std::vector<Number> terms{number(model.accumulator, c_bits)};
  double plain = terms[0].value;  // only to see infinities and NaNs
  const bool scaled = model.scale != ScaleType::kNone;
  const bool grouped = model.arithmetic == Arithmetic::kFusedGroupAdd;
  for (size_t k = begin; k < end; ++k) {
    const Number a = number(model.a, in.a[k]);
    const Number b = number(model.b, in.b[k]);
    const Number sa =
        scaled ? number(model.scale, in.a_scales[k / model.scale_block]) : Number{1, 0};
    const Number sb =
        scaled ? number(model.scale, in.b_scales[k / model.scale_block]) : Number{1, 0};
    const double product = a.value * b.value * sa.value * sb.value;
    plain += std::isfinite(product) ? 0 : product;
    if (grouped && (k - begin) % 16 != 0) {
      terms.back().value += product;
    } else if (grouped) {
      terms.push_back({product, sa.exponent + sb.exponent});
    } else {
      terms.push_back({product, a.exponent + b.exponent + sa.exponent + sb.exponent});
    }
  }
  if (!std::isfinite(plain)) return rounded(model, plain);
  return rounded(model, fused(terms, model.fraction_bits));
}

inline uint64_t oracle_chain(const DotAddModel& model, const OracleOperands& in, uint64_t c) {
  for (size_t k = 0; k < in.a.size(); k += model.step_k) {
    c = oracle_step(model, in, k, std::min(k + model.step_k, in.a.size()), c);
  }
  return c;
}

}  // namespace mpfa::sim::testing
