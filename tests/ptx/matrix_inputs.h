// Elements of matrices for the tests of the tensor core's instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness.h"

namespace mpfa::ptx_test {

enum class Element { kF16, kBf16, kTf32, kE4m3, kE5m2, kF64, kS8, kU8, kS4, kU4, kB1, kF32, kS32 };

inline int bits_of(Element element) {
  switch (element) {
    case Element::kF64:
      return 64;
    case Element::kTf32:
    case Element::kF32:
    case Element::kS32:
      return 32;
    case Element::kF16:
    case Element::kBf16:
      return 16;
    case Element::kS4:
    case Element::kU4:
      return 4;
    case Element::kB1:
      return 1;
    default:
      return 8;
  }
}

inline const FloatFormat* format_of(Element element) {
  switch (element) {
    case Element::kF16:
      return &kF16;
    case Element::kBf16:
      return &kBf16;
    case Element::kTf32:  // in a register of 32 bits, whose lower ones the instruction does not
                          // read
    case Element::kF32:
      return &kF32;
    case Element::kE4m3:
      return &kE4m3;
    case Element::kE5m2:
      return &kE5m2;
    case Element::kF64:
      return &kF64;
    default:
      return nullptr;
  }
}

// What a set of operands is made of.
struct OperandSet {
  const char* name;
  enum class Of { kIntegers, kSpread, kAnyFinite, kSpecials } of;
  int spread = 0;         // of the exponents of A and B about that of 1
  int addend_spread = 0;  // of C's
};

// Small integers give sums that are exact, which a test computes another way; the spreads show how
// addends are aligned and cut off; special values are few, so that some sums stay finite.
inline const std::vector<OperandSet>& operand_sets() {
  using Of = OperandSet::Of;
  static const std::vector<OperandSet> sets = {
      {"integers", Of::kIntegers},        {"spread 0", Of::kSpread, 0, 0},
      {"spread 2", Of::kSpread, 2, 4},    {"spread 6", Of::kSpread, 6, 6},
      {"spread 12", Of::kSpread, 12, 24}, {"large addend", Of::kSpread, 1, 14},
      {"any finite", Of::kAnyFinite},     {"specials", Of::kSpecials}};
  return sets;
}

inline uint64_t element_value(Element element, const OperandSet& set, int spread, Random& random) {
  using Of = OperandSet::Of;
  const FloatFormat* format = format_of(element);
  const int bits = bits_of(element);
  if (format == nullptr) {
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    if (set.of == Of::kIntegers && bits == 32) {
      return random.bits() & 0xFFFF;  // no sum is too large
    }
    if (set.of == Of::kSpecials && bits > 1 && random.below(2) == 0) {
      const uint64_t top = uint64_t{1} << (bits - 1);
      return random.below(2) == 0 ? top : top - 1;
    }
    return (set.of == Of::kSpread && bits == 32 ? random_integer(32, random) : random.bits()) &
           mask;
  }
  switch (set.of) {
    case Of::kIntegers:
      return format->integer(random.between(-3, 3));
    case Of::kSpread:
      return float_within(*format, spread, random);
    case Of::kAnyFinite: {
      uint64_t value = random.bits() & (format->sign() * 2 - 1);
      if ((value & ~format->sign()) > format->largest()) {
        value &= ~(uint64_t{1} << (bits - 2));  // a smaller exponent
      }
      return value;
    }
    case Of::kSpecials:
      return random.below(12) == 0 ? random.of(special_floats(*format))
                                   : float_within(*format, 2, random);
  }
  return 0;
}

// The value of an element of small integers.
inline int integer_value(Element element, uint64_t bits) {
  const FloatFormat* format = format_of(element);
  if (format != nullptr) {
    return static_cast<int>(to_double(*format, bits));
  }
  const bool is_signed = element == Element::kS8 || element == Element::kS4;
  const int width = bits_of(element);
  const auto value = static_cast<int>(bits);
  return is_signed && (value >> (width - 1)) != 0 ? value - (1 << width) : value;
}

// A matrix of elements, or a part of registers or memory that holds it.
struct Matrix {
  Element element;
  int rows = 0;
  int columns = 0;
  std::vector<uint64_t> values;

  Matrix(Element element, int rows, int columns)
      : element(element),
        rows(rows),
        columns(columns),
        values(static_cast<size_t>(rows) * static_cast<size_t>(columns)) {}
  uint64_t& at(int row, int column) {
    return values[static_cast<size_t>(row) * static_cast<size_t>(columns) +
                  static_cast<size_t>(column)];
  }
  uint64_t at(int row, int column) const { return const_cast<Matrix*>(this)->at(row, column); }
};

inline Matrix random_matrix(Element element, int rows, int columns, const OperandSet& set,
                            int spread, Random& random) {
  Matrix matrix(element, rows, columns);
  for (uint64_t& value : matrix.values) {
    value = element_value(element, set, spread, random);
  }
  return matrix;
}

// Those of a sum of products: A's row, B's column, C's element.
inline std::string describe_sum(const Matrix& a, const Matrix& b, const std::string& c, int row,
                                int column) {
  std::string text = "row " + std::to_string(row) + " column " + std::to_string(column) + " a=";
  for (int k = 0; k < a.columns; ++k) {
    text += hex(a.at(row, k), bits_of(a.element)) + (bits_of(a.element) > 4 ? "," : "");
  }
  text += " b=";
  for (int k = 0; k < b.rows; ++k) {
    text += hex(b.at(k, column), bits_of(b.element)) + (bits_of(b.element) > 4 ? "," : "");
  }
  return text + " c=" + c;
}

}  // namespace mpfa::ptx_test
