// Number formats the slow way, to test mpfa/formats.h against: a format is the table of its
// non-negative values in double, made from its parameters, and rounding is a search in that table
// (docs/spec.md, section 1). Nothing here looks at the bits of a float.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace mpfa::oracle {

// Codes 0..last_code, without sign, of a binary format with subnormals.
class ValueTable {
 public:
  ValueTable(int mantissa_bits, int bias, int last_code) {
    const int steps = 1 << mantissa_bits;
    for (int code = 0; code <= last_code; ++code) {
      const int exponent = code / steps;
      const int fraction = code % steps;
      values_.push_back(exponent == 0
                            ? std::ldexp(fraction, 1 - bias - mantissa_bits)
                            : std::ldexp(steps + fraction, exponent - bias - mantissa_bits));
    }
    // Exact in double, as neighbours differ by one step.
    for (int code = 0; code < last_code; ++code) {
      midpoints_.push_back((values_[code] + values_[code + 1]) / 2);
    }
  }

  int last_code() const { return static_cast<int>(values_.size()) - 1; }
  double value(int code) const { return values_[code]; }
  // Where rounding changes from `code` to the next one.
  double midpoint_above(int code) const { return midpoints_[code]; }

  // Code of the value nearest to magnitude >= 0, the even one in the middle, the last one beyond.
  int nearest(double magnitude) const {
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    const int code = static_cast<int>(above - values_.begin());
    if (code > last_code()) return last_code();
    if (code == 0) return 0;
    const double middle = midpoints_[code - 1];
    if (magnitude == middle) return code - code % 2;
    return magnitude < middle ? code - 1 : code;
  }

  // Whether `code` is what nearest() gives, without the search.
  bool is_nearest(double magnitude, int code) const {
    if (code < 0 || code > last_code()) return false;
    const bool even = code % 2 == 0;
    const bool above_lower = code == 0 || magnitude > midpoints_[code - 1] ||
                             (even && magnitude == midpoints_[code - 1]);
    const bool below_upper = code == last_code() || magnitude < midpoints_[code] ||
                             (even && magnitude == midpoints_[code]);
    return above_lower && below_upper;
  }

 private:
  std::vector<double> values_;
  std::vector<double> midpoints_;
};

// Both saturate: there is no value beyond the last.
inline const ValueTable& e2m1_table() {
  static const ValueTable table(1, 1, 7);
  return table;
}
inline const ValueTable& e4m3_table() {
  static const ValueTable table(3, 7, 0x7E);
  return table;
}
// IEEE formats: the last code is infinity, and rounding treats it as the next power of two.
inline const ValueTable& fp16_table() {
  static const ValueTable table(10, 15, 0x7C00);
  return table;
}
inline const ValueTable& bf16_table() {
  static const ValueTable table(7, 127, 0x7F80);
  return table;
}

}  // namespace mpfa::oracle
