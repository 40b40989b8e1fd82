// The binary formats that values are rounded to, wide and narrow, described by numbers; and the
// rounding of an f32 to any of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

// Of a format with a sign bit. Codes are right-aligned; a code without its sign is a magnitude.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint64_t max_finite;  // the largest finite magnitude
  bool has_infinity;    // max_finite + 1; greater magnitudes are NaNs
  // What a NaN becomes: the canonical one, or, where there is none, the largest value (ISA, section
  // cvt, .satfinite).
  uint64_t nan;

  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
};

constexpr FloatFormat ieee_format(int exponent_bits, int mantissa_bits) {
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  return {.exponent_bits = exponent_bits,
          .mantissa_bits = mantissa_bits,
          .bias = (1 << (exponent_bits - 1)) - 1,
          .max_finite = infinity - 1,
          .has_infinity = true,
          .nan = infinity | ((uint64_t{1} << mantissa_bits) - 1)};
}

// Formats of which all but the NaN, if there is one, are finite.
constexpr FloatFormat finite_format(int exponent_bits, int mantissa_bits, bool has_nan) {
  const uint64_t all = (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  return {.exponent_bits = exponent_bits,
          .mantissa_bits = mantissa_bits,
          .bias = (1 << (exponent_bits - 1)) - 1,
          .max_finite = has_nan ? all - 1 : all,
          .has_infinity = false,
          .nan = all};
}

inline constexpr FloatFormat kF16 = ieee_format(5, 10);
inline constexpr FloatFormat kBf16 = ieee_format(8, 7);
inline constexpr FloatFormat kTf32 = ieee_format(8, 10);  // the upper 19 bits of an f32
inline constexpr FloatFormat kF32 = ieee_format(8, 23);
inline constexpr FloatFormat kF64 = ieee_format(11, 52);
inline constexpr FloatFormat kE5m2 = ieee_format(5, 2);
inline constexpr FloatFormat kE4m3 = finite_format(4, 3, true);
inline constexpr FloatFormat kE3m2 = finite_format(3, 2, false);
inline constexpr FloatFormat kE2m3 = finite_format(2, 3, false);
inline constexpr FloatFormat kE2m1 = finite_format(2, 1, false);

// 1 where a significand is to be one greater than `kept`, its part that is left when its lowest
// `discarded` bits (at least one), of value `rest` < 2^24, are dropped.
MPFA_SIM_LANE constexpr uint32_t rounding_increment(RoundingRule rule, bool negative, uint32_t kept,
                                                    uint32_t rest, int discarded) {
  // Of 31 bits or more, `rest` fills less than half.
  const int shift = std::min(discarded, 31);
  const uint32_t half = uint32_t{1} << (shift - 1);
  switch (rule.mode) {
    case Rounding::kNearestEven:
      return (rest + half - 1 + (kept & 1)) >> shift;
    case Rounding::kNearestAway:
      return (rest + half) >> shift;
    case Rounding::kDown:
      return negative && rest != 0 ? 1 : 0;
    case Rounding::kUp:
      return !negative && rest != 0 ? 1 : 0;
    case Rounding::kStochastic: {
      const uint64_t scaled = (uint64_t{rest} << rule.random_bits) >> std::min(discarded, 63);
      return static_cast<uint32_t>((scaled + rule.random) >> rule.random_bits);
    }
    case Rounding::kZero:
      break;
  }
  return 0;
}

// The code of x in a format of at most 10 mantissa and 8 exponent bits. `finite`: too large ones
// and infinities become the largest finite value, as they always do where the format has no
// infinity. A NaN becomes format.nan.
MPFA_SIM_LANE constexpr uint32_t round_float(const FloatFormat& format, float x, RoundingRule rule,
                                             bool finite) {
  const uint32_t magnitude = magnitude_bits(x);
  const bool negative = is_negative(x);
  const auto exponent = static_cast<int32_t>(magnitude >> 23);
  const uint32_t significand = (magnitude & 0x7FFFFFu) | (exponent != 0 ? 0x800000u : 0u);
  // Fields of f32 exponents, of which 0 means 1: that of x, and of the format's smallest normal.
  const int32_t field = std::max(exponent, int32_t{1});
  const int32_t smallest = 128 - format.bias;
  // Below the format's normals, further bits are discarded.
  const int32_t below = smallest > 1 ? std::max(smallest - field, int32_t{0}) : 0;
  const int32_t discarded = 23 - format.mantissa_bits + below;
  const int32_t shift = std::min(discarded, int32_t{31});
  const uint32_t kept = significand >> shift;
  const uint32_t rest = significand & ((uint32_t{1} << shift) - 1);
  // The significand's leading bit adds one to the exponent's field, as a carry out of it does.
  const auto steps = static_cast<uint32_t>(std::max(field - smallest, int32_t{0}));
  const uint32_t rounded = (steps << format.mantissa_bits) + kept +
                           rounding_increment(rule, negative, kept, rest, discarded);

  const auto largest = static_cast<uint32_t>(format.max_finite);
  const bool to_largest = finite || !format.has_infinity;
  const bool too_large_to_largest = to_largest || !overflows_to_infinity(rule.mode, negative);
  uint32_t code = rounded;
  code = rounded > largest ? largest + (too_large_to_largest ? 0u : 1u) : code;
  code = magnitude == FloatType<float>::kInfinity ? largest + (to_largest ? 0u : 1u) : code;
  code |= negative ? uint32_t{1} << format.sign_shift() : 0u;
  return magnitude > FloatType<float>::kInfinity ? static_cast<uint32_t>(format.nan) : code;
}

// The value of a code in a format of at most 10 mantissa and 8 exponent bits: exact. A NaN becomes
// f32's canonical one.
MPFA_SIM_LANE constexpr float float_of_code(const FloatFormat& format, uint32_t code) {
  const uint32_t sign = (code >> format.sign_shift() & 1u) << 31;
  const uint32_t magnitude = code & ((uint32_t{1} << format.sign_shift()) - 1);
  const auto largest = static_cast<uint32_t>(format.max_finite);
  // With the format's fields where those of f32 are, the value is too small by a power of two, in
  // subnormals too.
  const auto power = static_cast<uint32_t>(127 - format.bias + 127) << 23;
  const float scaled = from_bits<float>(magnitude << (23 - format.mantissa_bits)) *
                       (format.bias == 127 ? 1.0f : from_bits<float>(power));
  uint32_t bits = bits_of(scaled);
  bits = magnitude > largest ? FloatType<float>::kInfinity : bits;
  const bool nan = magnitude > largest + (format.has_infinity ? 1u : 0u);
  return from_bits<float>(nan ? FloatType<float>::kNan : bits | sign);
}

}  // namespace mpfa::sim
