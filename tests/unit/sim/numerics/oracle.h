// What the numerics are held against: exact fixed-point numbers of 768 bits, and rounding by
// looking for the neighbours of a value among all codes of a format.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim::oracle {

// Two's complement, in units of 2^-320: every sum and product of f32 values fits.
class Wide {
 public:
  Wide() = default;
  // x * 2^exponent, a multiple of 2^-320.
  Wide(__int128 x, int exponent) {
    const int shift = exponent + kFractionBits;
    const auto from = static_cast<size_t>(shift / 64);
    for (size_t i = from; i < kWords; ++i) {
      const size_t part = i - from;
      words_[i] = part < 2 ? static_cast<uint64_t>(x >> (64 * part)) : x < 0 ? ~uint64_t{0} : 0;
    }
    if (shift % 64 != 0) shift_left(shift % 64);
  }
  explicit Wide(double x) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    int shift = exponent - 53;
    auto significand = static_cast<int64_t>(std::ldexp(fraction, 53));
    // Zeros at the end may lie below 2^-320.
    while (significand != 0 && significand % 2 == 0) {
      significand /= 2;
      ++shift;
    }
    *this = Wide(significand, significand == 0 ? 0 : shift);
  }

  Wide operator+(const Wide& other) const {
    Wide sum;
    unsigned __int128 carry = 0;
    for (size_t i = 0; i < kWords; ++i) {
      carry += words_[i];
      carry += other.words_[i];
      sum.words_[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    return sum;
  }
  Wide operator-() const {
    Wide flipped;
    for (size_t i = 0; i < kWords; ++i) flipped.words_[i] = ~words_[i];
    Wide unit;
    unit.words_[0] = 1;
    return flipped + unit;
  }
  Wide operator-(const Wide& other) const { return *this + -other; }
  // Times a number up to 2^32.
  Wide operator*(uint64_t factor) const {
    Wide sum;
    Wide power = *this;
    for (; factor != 0; factor >>= 1) {
      if ((factor & 1) != 0) sum = sum + power;
      power = power + power;
    }
    return sum;
  }
  bool negative() const { return static_cast<int64_t>(words_[kWords - 1]) < 0; }
  bool zero() const { return *this == Wide(); }
  friend bool operator==(const Wide& a, const Wide& b) { return a.words_ == b.words_; }
  friend bool operator<(const Wide& a, const Wide& b) { return (a - b).negative(); }

 private:
  static constexpr size_t kWords = 12;
  static constexpr int kFractionBits = 320;

  void shift_left(int bits) {
    for (size_t i = kWords - 1; i > 0; --i) {
      words_[i] = words_[i] << bits | words_[i - 1] >> (64 - bits);
    }
    words_[0] <<= bits;
  }

  std::array<uint64_t, kWords> words_{};
};

inline Wide product(double a, double b) {
  int exponent_a = 0;
  int exponent_b = 0;
  const auto x = static_cast<__int128>(std::ldexp(std::frexp(a, &exponent_a), 24));
  const auto y = static_cast<__int128>(std::ldexp(std::frexp(b, &exponent_b), 24));
  __int128 significand = x * y;
  int exponent = exponent_a + exponent_b - 48;
  while (significand != 0 && significand % 2 == 0) {
    significand /= 2;
    ++exponent;
  }
  return {significand, significand == 0 ? 0 : exponent};
}

struct Format {
  int mantissa_bits;
  int bias;
  uint64_t largest;  // code
  bool has_infinity;
  int sign_shift;
};
inline constexpr Format kHalf{10, 15, 0x7BFF, true, 15};
inline constexpr Format kBfloat{7, 127, 0x7F7F, true, 15};
inline constexpr Format kTfloat{10, 127, 0x3FBFF, true, 18};
inline constexpr Format kSingle{23, 127, 0x7F7FFFFF, true, 31};
inline constexpr Format kFp8E4m3{3, 7, 0x7E, false, 7};
inline constexpr Format kFp8E5m2{2, 15, 0x7B, true, 7};
inline constexpr Format kFp6E2m3{3, 1, 0x1F, false, 5};
inline constexpr Format kFp6E3m2{2, 3, 0x1F, false, 5};
inline constexpr Format kFp4E2m1{1, 1, 0x7, false, 3};

// The value of a magnitude; of the one beyond the largest too, as if the range went on.
inline double value_of(const Format& format, uint64_t magnitude) {
  const auto field = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  const uint64_t fraction = magnitude & (hidden - 1);
  const uint64_t significand = field == 0 ? fraction : fraction + hidden;
  const int exponent = (field == 0 ? 1 : field) - format.bias - format.mantissa_bits;
  return std::ldexp(static_cast<double>(significand), exponent);
}

// What a finite value rounds to, `negative_zero` if it is a zero that is negative.
inline uint64_t rounded(const Format& format, const Wide& value, const RoundingRule& rule,
                        bool negative_zero = false, bool finite = false) {
  const bool negative = value.zero() ? negative_zero : value.negative();
  const Wide size = value.negative() ? -value : value;
  // The greatest magnitude that is not above the value, at most the largest.
  uint64_t low = 0;
  uint64_t high = format.largest;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (size < Wide(value_of(format, middle))) {
      high = middle - 1;
    } else {
      low = middle;
    }
  }
  const Wide below(value_of(format, low));
  const Wide above(value_of(format, low + 1));
  const Wide rest = size - below;
  const Wide gap = above - below;
  bool up = false;
  if (!rest.zero()) {
    const bool less_than_half = rest + rest < gap;
    const bool half = rest + rest == gap;
    switch (rule.mode) {
      case Rounding::kNearestEven:
        up = half ? low % 2 == 1 : !less_than_half;
        break;
      case Rounding::kNearestAway:
        up = !less_than_half;
        break;
      case Rounding::kZero:
        break;
      case Rounding::kDown:
        up = negative;
        break;
      case Rounding::kUp:
        up = !negative;
        break;
      case Rounding::kStochastic:
        up = !(rest * (uint64_t{1} << rule.random_bits) + gap * rule.random <
               gap * (uint64_t{1} << rule.random_bits));
        break;
    }
  }
  uint64_t code = low + (up ? 1 : 0);
  if (code > format.largest && (finite || !format.has_infinity)) code = format.largest;
  return code | (negative ? uint64_t{1} << format.sign_shift : 0);
}

}  // namespace mpfa::sim::oracle
