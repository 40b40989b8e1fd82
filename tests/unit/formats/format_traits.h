// One face for the four formats of mpfa/formats.h, so that the same tests run over all of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "mpfa/formats.h"
#include "unit/formats/oracle.h"

namespace mpfa::format_test {

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// An IEEE NaN keeps its sign and the leading bits of its payload, and becomes quiet.
inline uint32_t ieee_nan(float nan, uint32_t sign_bit, uint32_t infinity, int mantissa_bits) {
  const uint32_t payload = bits_of(nan) % (1u << 23) / (1u << (23 - mantissa_bits));
  const uint32_t quiet = 1u << (mantissa_bits - 1);
  return (std::signbit(nan) ? sign_bit : 0u) + infinity + (payload | quiet);
}

struct Bf16Format {
  static constexpr const char* kName = "bf16";
  static constexpr uint32_t kSignBit = 0x8000;
  static const oracle::ValueTable& table() { return oracle::bf16_table(); }
  static uint32_t encode(float x) { return bf16_from_float(x).bits; }
  static float decode(uint32_t code) { return bf16_to_float({static_cast<uint16_t>(code)}); }
  static uint32_t nan_code(float nan) { return ieee_nan(nan, kSignBit, 0x7F80, 7); }
};

struct Fp16Format {
  static constexpr const char* kName = "fp16";
  static constexpr uint32_t kSignBit = 0x8000;
  static const oracle::ValueTable& table() { return oracle::fp16_table(); }
  static uint32_t encode(float x) { return fp16_from_float(x).bits; }
  static float decode(uint32_t code) { return fp16_to_float({static_cast<uint16_t>(code)}); }
  static uint32_t nan_code(float nan) { return ieee_nan(nan, kSignBit, 0x7C00, 10); }
};

struct E4m3Format {
  static constexpr const char* kName = "e4m3";
  static constexpr uint32_t kSignBit = 0x80;
  static const oracle::ValueTable& table() { return oracle::e4m3_table(); }
  static uint32_t encode(float x) { return e4m3_from_float(x).bits; }
  static float decode(uint32_t code) { return e4m3_to_float({static_cast<uint8_t>(code)}); }
  static uint32_t nan_code(float nan) { return std::signbit(nan) ? 0xFF : 0x7F; }
};

struct E2m1Format {
  static constexpr const char* kName = "e2m1";
  static constexpr uint32_t kSignBit = 0x8;
  static const oracle::ValueTable& table() { return oracle::e2m1_table(); }
  static uint32_t encode(float x) { return e2m1_from_float(x); }
  static float decode(uint32_t code) { return e2m1_to_float(static_cast<uint8_t>(code)); }
  static uint32_t nan_code(float) { return 7; }
};

// What the oracle gives for any float.
template <typename Format>
uint32_t expected_code(float x) {
  if (std::isnan(x)) return Format::nan_code(x);
  const uint32_t magnitude = static_cast<uint32_t>(Format::table().nearest(std::fabs(x)));
  return magnitude | (std::signbit(x) ? Format::kSignBit : 0u);
}

// The same verdict without a search, for sweeps over very many values.
template <typename Format>
bool code_is_right(const oracle::ValueTable& table, float x, uint32_t code) {
  if (std::isnan(x)) return code == Format::nan_code(x);
  const bool sign = code >= Format::kSignBit;
  const int magnitude = static_cast<int>(code - (sign ? Format::kSignBit : 0u));
  return sign == std::signbit(x) && table.is_nearest(std::fabs(x), magnitude);
}

}  // namespace mpfa::format_test
