#include "sim/numerics/exact.h"

#include <algorithm>
#include <utility>

namespace mpfa::sim {
namespace {

int bit_length(Uint128 x) {
  const auto high = static_cast<uint64_t>(x >> 64);
  const auto low = static_cast<uint64_t>(x);
  if (high != 0) return 128 - __builtin_clzll(high);
  return low != 0 ? 64 - __builtin_clzll(low) : 0;
}

// x >> shift, with a one in the lowest bit where ones were lost.
Uint128 shift_right_sticky(Uint128 x, int shift) {
  if (shift == 0) return x;
  if (shift > 127) return x != 0 ? 1 : 0;
  const bool lost = (x & ((Uint128{1} << shift) - 1)) != 0;
  return (x >> shift) | (lost ? 1 : 0);
}

// With `length` bits in the significand (not 0), which has no more.
Exact normalised(const Exact& x, int length) {
  const int shift = length - bit_length(x.significand);
  return {x.negative, x.significand << shift, x.exponent - shift};
}

// Whether what is left of a significand goes up by one when the lowest `shift` bits, `rest`, are
// dropped.
bool rounds_away(Rounding mode, bool negative, bool odd, Uint128 rest, int shift) {
  const Uint128 half = Uint128{1} << (shift - 1);
  switch (mode) {
    case Rounding::kNearestEven:
      return rest > half || (rest == half && odd);
    case Rounding::kNearestAway:
      return rest >= half;
    case Rounding::kDown:
      return negative && rest != 0;
    case Rounding::kUp:
      return !negative && rest != 0;
    default:  // .rs is for f32 alone, which round_float() serves
      return false;
  }
}

}  // namespace

Exact exact_value(double x) {
  const uint64_t magnitude = magnitude_bits(x);
  const auto field = static_cast<int>(magnitude >> 52);
  const uint64_t fraction = magnitude & 0xFFFFFFFFFFFFFu;
  if (field == 0) return {is_negative(x), fraction, -1074};
  return {is_negative(x), fraction | (uint64_t{1} << 52), field - 1075};
}

Exact exact_value(uint64_t x) { return {false, x, 0}; }

Exact exact_value(int64_t x) {
  const auto bits = static_cast<uint64_t>(x);
  return {x < 0, x < 0 ? 0 - bits : bits, 0};
}

Exact exact_product(const Exact& a, const Exact& b) {
  return {a.negative != b.negative, a.significand * b.significand, a.exponent + b.exponent};
}

Exact exact_sum(const Exact& a, const Exact& b, Rounding mode) {
  const bool zero_sign = a.negative == b.negative ? a.negative : mode == Rounding::kDown;
  if (a.significand == 0 && b.significand == 0) return {zero_sign, 0, 0};
  if (a.significand == 0) return b;
  if (b.significand == 0) return a;

  // Both with 126 bits, which leaves room for the carry. Where more than one bit cancels, the terms
  // are at most one place apart, and the smaller one loses nothing: it came with 106 bits or fewer.
  Exact large = normalised(a, 126);
  Exact small = normalised(b, 126);
  if (large.exponent < small.exponent) std::swap(large, small);
  small.significand = shift_right_sticky(small.significand, large.exponent - small.exponent);
  if (large.negative == small.negative) {
    return {large.negative, large.significand + small.significand, large.exponent};
  }
  if (large.significand == small.significand) return {zero_sign, 0, 0};
  if (large.significand > small.significand) {
    return {large.negative, large.significand - small.significand, large.exponent};
  }
  return {small.negative, small.significand - large.significand, large.exponent};
}

Exact exact_quotient(const Exact& a, const Exact& b) {
  if (a.significand == 0) return {a.negative != b.negative, 0, 0};
  const Exact dividend = normalised(a, 128);
  const Uint128 quotient = dividend.significand / b.significand;
  const bool lost = dividend.significand % b.significand != 0;
  return {a.negative != b.negative, quotient | (lost ? 1 : 0), dividend.exponent - b.exponent};
}

Exact exact_root(const Exact& a) {
  // A radicand of 125 or 126 bits whose exponent is even: a root of 63 bits.
  Exact radicand = normalised(a, 126);
  if (radicand.exponent % 2 != 0) {
    radicand.significand >>= 1;  // a 0: the significand has trailing zeros
    ++radicand.exponent;
  }
  uint64_t root = 0;
  for (int bit = 62; bit >= 0; --bit) {
    const uint64_t trial = root | (uint64_t{1} << bit);
    if (Uint128{trial} * trial <= radicand.significand) root = trial;
  }
  const bool lost = Uint128{root} * root != radicand.significand;
  // The sticky bit goes one place below the root.
  return {false, (Uint128{root} << 1) | (lost ? 1 : 0), radicand.exponent / 2 - 1};
}

uint64_t round_exact(const FloatFormat& format, const Exact& value, Rounding mode) {
  const uint64_t sign = value.negative ? uint64_t{1} << format.sign_shift() : 0;
  if (value.significand == 0) return sign;
  // The exponents of the leading bit, of the smallest normal, and of the result's lowest bit.
  const int leading = value.exponent + bit_length(value.significand) - 1;
  const int smallest = 1 - format.bias;
  const int unit = std::max(leading, smallest) - format.mantissa_bits;

  Uint128 significand = value.significand;
  int discarded = unit - value.exponent;
  if (discarded > 126) {
    significand = shift_right_sticky(significand, discarded - 126);
    discarded = 126;
  }
  Uint128 kept = 0;
  if (discarded <= 0) {
    kept = significand << -discarded;
  } else {
    kept = significand >> discarded;
    const Uint128 rest = significand & ((Uint128{1} << discarded) - 1);
    if (rounds_away(mode, value.negative, (kept & 1) != 0, rest, discarded)) ++kept;
  }
  // The significand's leading bit adds one to the exponent's field, as a carry out of it does.
  const auto steps = static_cast<uint64_t>(std::max(leading - smallest, 0));
  const uint64_t code = (steps << format.mantissa_bits) + static_cast<uint64_t>(kept);
  if (code <= format.max_finite) return sign | code;
  const bool infinite = format.has_infinity && overflows_to_infinity(mode, value.negative);
  return sign | (format.max_finite + (infinite ? 1 : 0));
}

}  // namespace mpfa::sim
