// Element, accumulator and scale types of tensor core instructions, and how a tensor core takes a
// floating-point code apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "mpfa/check.h"
#include "sim/numerics/float_format.h"

namespace mpfa::sim {

enum class ElementType : uint8_t {
  kF16,
  kBf16,
  kTf32,  // an f32 of which the low 13 bits are not looked at
  kE4m3,
  kE5m2,
  kE3m2,
  kE2m3,
  kE2m1,
  kF64,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
};

enum class AccumulatorType : uint8_t { kF32, kF16, kF64, kS32 };

// Of the scales of block-scaled instructions. ue4m3 is e4m3 of which the sign is not looked at.
enum class ScaleType : uint8_t { kNone, kUe8m0, kUe4m3 };

constexpr std::string_view name_of(ElementType type) {
  constexpr std::string_view kNames[] = {"f16",  "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3",
                                         "e2m1", "f64",  "s8",   "u8",   "s4",   "u4",   "b1"};
  return kNames[static_cast<int>(type)];
}

constexpr std::string_view name_of(AccumulatorType type) {
  constexpr std::string_view kNames[] = {"f32", "f16", "f64", "s32"};
  return kNames[static_cast<int>(type)];
}

constexpr std::string_view name_of(ScaleType type) {
  constexpr std::string_view kNames[] = {"none", "ue8m0", "ue4m3"};
  return kNames[static_cast<int>(type)];
}

// e4m3 and e5m2.
constexpr bool is_fp8(ElementType type) {
  return type == ElementType::kE4m3 || type == ElementType::kE5m2;
}

// FP8, FP6 and FP4: the types of .kind::f8f6f4.
constexpr bool is_fp8_or_narrower(ElementType type) {
  return type >= ElementType::kE4m3 && type <= ElementType::kE2m1;
}

// The types whose products a fused dot-add sums.
constexpr bool is_fused_type(ElementType type) { return type <= ElementType::kE2m1; }

// Integers and bits.
constexpr bool is_integer(ElementType type) { return type >= ElementType::kS8; }

// Bytes of the container of one element; of 32 elements for b1, element i of them in bit i. Types
// of 4 and 6 bits stand in the low bits of a byte, whose other bits are not looked at.
constexpr int container_bytes(ElementType type) {
  switch (type) {
    case ElementType::kF16:
    case ElementType::kBf16:
      return 2;
    case ElementType::kTf32:
    case ElementType::kB1:
      return 4;
    case ElementType::kF64:
      return 8;
    default:
      return 1;
  }
}

constexpr int container_bytes(AccumulatorType type) {
  switch (type) {
    case AccumulatorType::kF16:
      return 2;
    case AccumulatorType::kF64:
      return 8;
    default:
      return 4;
  }
}

constexpr FloatFormat format_of(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return kF16;
    case ElementType::kBf16:
      return kBf16;
    case ElementType::kTf32:
      return kTf32;
    case ElementType::kE4m3:
      return kE4m3;
    case ElementType::kE5m2:
      return kE5m2;
    case ElementType::kE3m2:
      return kE3m2;
    case ElementType::kE2m3:
      return kE2m3;
    case ElementType::kE2m1:
      return kE2m1;
    case ElementType::kF64:
      return kF64;
    default:
      break;
  }
  internal::throw_error<InvalidArgument>(__FILE__, __LINE__, "element type ", name_of(type),
                                         ": has no floating-point format");
}

// Bits of a container below those of the format.
constexpr int unused_low_bits(ElementType type) { return type == ElementType::kTf32 ? 13 : 0; }

// The exponent that zeros count as in a fused dot-add, whatever their format.
inline constexpr int kExponentOfZero = -126;

// (-1)^negative * significand * 2^(exponent - mantissa bits of the format). Subnormals have the
// format's smallest exponent and are not normalised.
struct DecodedFloat {
  enum class Kind : uint8_t { kFinite, kInfinity, kNan };

  Kind kind = Kind::kFinite;
  bool negative = false;
  uint32_t significand = 0;
  int exponent = kExponentOfZero;
};

// Of formats up to 32 bits; bits of `code` beyond the format are not looked at.
constexpr DecodedFloat decode_float(const FloatFormat& format, uint32_t code) {
  const uint32_t magnitude = code & static_cast<uint32_t>((uint64_t{1} << format.sign_shift()) - 1);
  DecodedFloat value;
  value.negative = (code >> format.sign_shift() & 1) != 0;
  if (magnitude > format.max_finite) {
    const bool infinite = format.has_infinity && magnitude == format.max_finite + 1;
    value.kind = infinite ? DecodedFloat::Kind::kInfinity : DecodedFloat::Kind::kNan;
    return value;
  }
  if (magnitude == 0) return value;
  const uint32_t field = magnitude >> format.mantissa_bits;
  const uint32_t hidden = uint32_t{1} << format.mantissa_bits;
  value.significand = (magnitude & (hidden - 1)) | (field != 0 ? hidden : 0);
  value.exponent = std::max(static_cast<int>(field), 1) - format.bias;
  return value;
}

constexpr DecodedFloat decode_element(ElementType type, uint32_t container) {
  return decode_float(format_of(type), container >> unused_low_bits(type));
}

// Bits below the point in the significand of a decoded scale.
constexpr int scale_fraction_bits(ScaleType type) { return type == ScaleType::kUe4m3 ? 3 : 0; }

constexpr DecodedFloat decode_scale(ScaleType type, uint8_t code) {
  if (type == ScaleType::kUe4m3) return decode_float(kE4m3, code & 0x7Fu);
  DecodedFloat value;
  value.kind = code == 0xFF ? DecodedFloat::Kind::kNan : DecodedFloat::Kind::kFinite;
  value.significand = 1;
  value.exponent = code - 127;
  return value;
}

// The f16 code of an FP8 element: exact. NaN becomes 0x7FFF (ISA, section cvt).
constexpr uint16_t f16_code_of_fp8(ElementType type, uint8_t code) {
  const auto sign = static_cast<uint16_t>((code & 0x80) << 8);
  const DecodedFloat value = decode_element(type, code);
  if (value.kind == DecodedFloat::Kind::kNan) return 0x7FFF;
  // f16 has the exponents of e5m2.
  if (type == ElementType::kE5m2) return static_cast<uint16_t>(code << 8);
  if (value.significand == 0) return sign;
  // Subnormals of e4m3 are normal in f16.
  uint32_t significand = value.significand;
  int exponent = value.exponent;
  for (; significand < 8; significand <<= 1) --exponent;
  return static_cast<uint16_t>(sign | (exponent + 15) << 10 | (significand & 7) << 7);
}

// The bits of an integer element, as a number.
constexpr int integer_value(ElementType type, uint8_t code) {
  switch (type) {
    case ElementType::kS8:
      return static_cast<int8_t>(code);
    case ElementType::kS4:
      return static_cast<int8_t>(code << 4) >> 4;
    case ElementType::kU4:
      return code & 0xF;
    default:
      return code;
  }
}

}  // namespace mpfa::sim
