#include "sim/numerics/convert_packed.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "oracle.h"
#include "samples.h"

namespace mpfa::sim {
namespace {

struct Narrow {
  std::string name;
  FloatFormat format;
  oracle::Format expected;
  uint32_t nan;  // what a NaN becomes
  int element_bits;
};

std::vector<Narrow> narrow_formats() {
  return {{"e4m3", kE4m3, oracle::kFp8E4m3, 0x7F, 8},
          {"e5m2", kE5m2, oracle::kFp8E5m2, 0x7F, 8},
          {"e2m3", kE2m3, oracle::kFp6E2m3, 0x1F, 8},
          {"e3m2", kE3m2, oracle::kFp6E3m2, 0x1F, 8},
          {"e2m1", kE2m1, oracle::kFp4E2m1, 0x7, 4}};
}

uint32_t expected_code(const Narrow& narrow, float x, const RoundingRule& rule, bool use_relu) {
  if (std::isnan(x)) return narrow.nan;
  if (use_relu && std::signbit(x)) return 0;
  const double near = std::isinf(x) ? std::copysign(0x1p130, x) : x;
  return static_cast<uint32_t>(
      oracle::rounded(narrow.expected, oracle::Wide(near), rule, std::signbit(x), true));
}

TEST(ConvertPacked, NarrowCodesAreTheNearest) {
  for (const Narrow& narrow : narrow_formats()) {
    for (const float x : float_samples({0, 1, 2, 3, 4, 5}, 3000)) {
      for (const bool use_relu : {false, true}) {
        ASSERT_EQ(narrow_code(narrow.format, x, Rounding::kNearestEven, use_relu),
                  expected_code(narrow, x, Rounding::kNearestEven, use_relu))
            << narrow.name << " of " << x;
      }
    }
  }
}

TEST(ConvertPacked, EveryNarrowValueSurvives) {
  for (const Narrow& narrow : narrow_formats()) {
    const uint32_t sign = 1u << narrow.expected.sign_shift;
    for (uint32_t code = 0; code < 2 * sign; ++code) {
      const uint32_t magnitude = code & (sign - 1);
      const uint32_t pair = f16x2_of_narrow(narrow.format, code << narrow.element_bits, false);
      EXPECT_EQ(pair & 0xFFFFu, 0u);
      const auto half = static_cast<uint16_t>(pair >> 16);
      if (magnitude > narrow.expected.largest) {
        const bool infinite =
            narrow.expected.has_infinity && magnitude == narrow.expected.largest + 1;
        EXPECT_EQ(half, infinite ? (code >= sign ? 0xFC00 : 0x7C00) : 0x7FFF) << narrow.name;
        continue;
      }
      const double size = oracle::value_of(narrow.expected, magnitude);
      EXPECT_EQ(oracle::value_of(oracle::kHalf, half & 0x7FFFu), size) << narrow.name << code;
      EXPECT_EQ(half >> 15, code >= sign ? 1 : 0);
      const auto value = static_cast<float>(code >= sign ? -size : size);
      EXPECT_EQ(narrow_code(narrow.format, value, Rounding::kNearestEven, false), code);
      // .relu of the way back.
      const uint32_t clamped = f16x2_of_narrow(narrow.format, code, true);
      EXPECT_EQ(clamped, code >= sign ? 0u : half);
    }
  }
}

TEST(ConvertPacked, ElementsAreInOrder) {
  EXPECT_EQ(narrow_x2(kE4m3, 1.0f, -2.0f, false), 0x38C0u);
  EXPECT_EQ(narrow_x2(kE5m2, 1.0f, -2.0f, false), 0x3CC0u);
  EXPECT_EQ(narrow_x2(kE2m3, 7.5f, -1.0f, false), 0x1F28u);
  EXPECT_EQ(narrow_x2(kE3m2, 28.0f, -1.0f, false), 0x1F2Cu);
  EXPECT_EQ(narrow_x2(kE2m1, 6.0f, -0.5f, false), 0x79u);
  EXPECT_EQ(narrow_x2(kE2m1, 6.0f, -0.5f, true), 0x70u);
  EXPECT_EQ(f16x2_of_narrow(kE4m3, 0x38C0, false), 0x3C00C000u);
  EXPECT_EQ(f16x2_of_narrow(kE2m1, 0x79, false), 0x4600B800u);
  EXPECT_EQ(f16x2_of_narrow(kE2m3, 0x1F28, false), 0x4780BC00u);
  EXPECT_EQ(convert_to_half_x2<Fp16>(1.0f, -2.0f, {}), 0x3C00C000u);
  EXPECT_EQ(convert_to_half_x2<Bf16>(1.0f, -2.0f, {.relu = true}), 0x3F800000u);
  EXPECT_EQ(stochastic_narrow_x4(kE4m3, {1.0f, -2.0f, 0.5f, 448.0f}, 0, false), 0x38C0307Eu);
  EXPECT_EQ(stochastic_narrow_x4(kE2m1, {1.0f, -2.0f, 0.5f, 6.0f}, 0, false), 0x2C17u);
}

TEST(ConvertPacked, HalvesToNarrow) {
  for (const Narrow& narrow : narrow_formats()) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float half = widened(Fp16{static_cast<uint16_t>(bits)});
      const float bfloat = widened(Bf16{static_cast<uint16_t>(bits)});
      const RoundingRule rule;
      ASSERT_EQ(narrow_x2_of_halves<Fp16>(narrow.format, bits << 16, false),
                expected_code(narrow, half, rule, false) << narrow.element_bits);
      ASSERT_EQ(narrow_x2_of_halves<Bf16>(narrow.format, bits, true),
                expected_code(narrow, bfloat, rule, true));
    }
  }
}

TEST(ConvertPacked, StochasticRounding) {
  std::mt19937 random(kSeed);
  const auto any = [&] { return static_cast<uint32_t>(random()); };
  for (const float x : float_samples({1, 3, 10}, 1000)) {
    for (const uint32_t bits : {0u, 0xFFFFFFFFu, 0x80008000u, 0x1234F00Du, any()}) {
      for (const Narrow& narrow : narrow_formats()) {
        const bool bytes = narrow.element_bits == 4;
        const uint32_t upper = bits >> 16;
        const uint32_t first = bytes ? (upper & 0xFF00u) | (bits >> 8 & 0xFFu) : upper;
        const uint32_t last = bytes ? (upper & 0xFFu) << 8 | (bits & 0xFFu) : bits & 0xFFFFu;
        const float values[] = {x, -x, x / 3, -x};
        uint32_t expected = 0;
        for (int i = 0; i < 4; ++i) {
          expected =
              expected << narrow.element_bits |
              expected_code(narrow, values[i], RoundingRule(i < 2 ? first : last, 16), false);
        }
        const std::array<float, 4> operands{values[0], values[1], values[2], values[3]};
        ASSERT_EQ(stochastic_narrow_x4(narrow.format, operands, bits, false), expected)
            << narrow.name << " of " << x << " with " << bits;
      }
      if (!std::isfinite(x)) continue;
      const uint64_t half = oracle::rounded(oracle::kHalf, oracle::Wide(x),
                                            RoundingRule(bits & 0x1FFFu, 13), std::signbit(x));
      const uint64_t bfloat = oracle::rounded(oracle::kBfloat, oracle::Wide(x),
                                              RoundingRule(bits >> 16, 16), std::signbit(x));
      ASSERT_EQ(stochastic_to_f16x2(0.0f, x, bits, false, false), half) << x << " " << bits;
      ASSERT_EQ(stochastic_to_bf16x2(x, 0.0f, bits, false, false), bfloat << 16) << x;
    }
  }
  EXPECT_EQ(stochastic_to_f16x2(INFINITY, -1e9f, 0, false, true), 0x7BFFFBFFu);
  EXPECT_EQ(stochastic_to_f16x2(-1.0f, NAN, 0, true, false), 0x00007FFFu);
  // Half of the random values carry a value halfway between two codes.
  int up = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    up += stochastic_narrow_x4(kE2m1, {1.25f, 0, 0, 0},
                               (bits & 0xFF00u) << 16 | (bits & 0xFFu) << 8, false) >>
              12 ==
          3;
  }
  EXPECT_EQ(up, 0x8000);
}

TEST(ConvertPacked, ScaleFactors) {
  // 2^(code - 127); up to 2^-127 everything is code 0.
  EXPECT_EQ(ue8m0_code(1.0f, Rounding::kZero, true), 127u);
  EXPECT_EQ(ue8m0_code(1.5f, Rounding::kZero, true), 127u);
  EXPECT_EQ(ue8m0_code(1.5f, Rounding::kUp, true), 128u);
  EXPECT_EQ(ue8m0_code(-1.5f, Rounding::kUp, true), 128u);
  EXPECT_EQ(ue8m0_code(0.0f, Rounding::kUp, true), 0u);
  EXPECT_EQ(ue8m0_code(0x1p-127f, Rounding::kUp, true), 0u);
  EXPECT_EQ(ue8m0_code(std::nextafter(0x1p-127f, 1.0f), Rounding::kUp, true), 1u);
  EXPECT_EQ(ue8m0_code(std::nextafter(0x1p-127f, 1.0f), Rounding::kZero, true), 0u);
  EXPECT_EQ(ue8m0_code(0x1p-126f, Rounding::kZero, true), 1u);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(ue8m0_code(largest, Rounding::kZero, false), 254u);
  EXPECT_EQ(ue8m0_code(largest, Rounding::kUp, false), 255u);
  EXPECT_EQ(ue8m0_code(largest, Rounding::kUp, true), 254u);
  EXPECT_EQ(ue8m0_code(INFINITY, Rounding::kZero, false), 255u);
  EXPECT_EQ(ue8m0_code(INFINITY, Rounding::kZero, true), 254u);
  EXPECT_EQ(ue8m0_code(NAN, Rounding::kUp, true), 255u);
  EXPECT_EQ(ue8m0_x2(1.0f, 4.0f, Rounding::kZero, true), 0x7F81u);
  EXPECT_EQ(ue8m0_x2_of_bf16x2(0x3F804080, Rounding::kZero, true), 0x7F81u);
  for (uint32_t code = 0; code < 255; ++code) {
    const uint32_t pair = bf16x2_of_ue8m0(code << 8 | code);
    const float value = widened(Bf16{static_cast<uint16_t>(pair)});
    EXPECT_EQ(value, std::ldexp(1.0f, static_cast<int>(code) - 127));
    EXPECT_EQ(pair >> 16, pair & 0xFFFFu);
    EXPECT_EQ(ue8m0_code(value, Rounding::kUp, true), code);
    EXPECT_EQ(ue8m0_code(value, Rounding::kZero, true), code);
  }
  EXPECT_EQ(bf16x2_of_ue8m0(0xFF7F), 0x7FFF3F80u);
}

}  // namespace
}  // namespace mpfa::sim
