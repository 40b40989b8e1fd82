#include "sim/numerics/tensor_types.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/sim/numerics/tensor_core_oracle.h"

namespace mpfa::sim {
namespace {

double value_of(const DecodedFloat& x, int mantissa_bits) {
  switch (x.kind) {
    case DecodedFloat::Kind::kNan:
      return testing::kNan;
    case DecodedFloat::Kind::kInfinity:
      return x.negative ? -testing::kInfinity : testing::kInfinity;
    default:
      return std::ldexp(x.negative ? -static_cast<double>(x.significand) : x.significand,
                        x.exponent - mantissa_bits);
  }
}

void expect_same(double got, double want) {
  EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << ", must be " << want;
}

TEST(TensorTypesTest, DecodesAllCodes) {
  for (const ElementType type :
       {ElementType::kF16, ElementType::kBf16, ElementType::kE4m3, ElementType::kE5m2,
        ElementType::kE3m2, ElementType::kE2m3, ElementType::kE2m1}) {
    const FloatFormat format = format_of(type);
    for (uint32_t code = 0; code < 2u << format.sign_shift(); ++code) {
      SCOPED_TRACE(::testing::Message() << name_of(type) << " " << code);
      const DecodedFloat got = decode_element(type, code);
      const testing::Number want = testing::number(type, code);
      expect_same(value_of(got, format.mantissa_bits), want.value);
      if (got.kind == DecodedFloat::Kind::kFinite) {
        EXPECT_EQ(got.exponent, want.exponent);
      }
    }
  }
}

TEST(TensorTypesTest, KnowsExamples) {
  // 2^-14 * 1/1024, as it is written.
  const DecodedFloat smallest = decode_element(ElementType::kF16, 0x8001);
  EXPECT_TRUE(smallest.negative);
  EXPECT_EQ(smallest.significand, 1u);
  EXPECT_EQ(smallest.exponent, -14);
  const DecodedFloat half = decode_element(ElementType::kE2m1, 0x1);
  EXPECT_EQ(half.significand, 1u);
  EXPECT_EQ(half.exponent, 0);
  EXPECT_EQ(decode_element(ElementType::kF16, 0x8000).exponent, -126);
  EXPECT_EQ(decode_element(ElementType::kE2m1, 0).exponent, -126);
  EXPECT_EQ(decode_element(ElementType::kTf32, 0x3F801FFF).significand, 1u << 10);
  EXPECT_EQ(decode_element(ElementType::kE2m1, 0xF7).significand, 3u) << "high bits do not count";
}

TEST(TensorTypesTest, DecodesScales) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    for (const ScaleType type : {ScaleType::kUe8m0, ScaleType::kUe4m3}) {
      const DecodedFloat got = decode_scale(type, byte);
      const testing::Number want = testing::number(type, byte);
      expect_same(value_of(got, scale_fraction_bits(type)), want.value);
      EXPECT_FALSE(got.negative);
      if (got.kind == DecodedFloat::Kind::kFinite) {
        EXPECT_EQ(got.exponent, want.exponent);
      }
    }
  }
}

TEST(TensorTypesTest, ConvertsFp8ToF16) {
  for (const ElementType type : {ElementType::kE4m3, ElementType::kE5m2}) {
    for (int code = 0; code < 256; ++code) {
      const uint16_t f16 = f16_code_of_fp8(type, static_cast<uint8_t>(code));
      const double want = testing::number(type, code).value;
      const double got = testing::number(ElementType::kF16, f16).value;
      expect_same(got, want);
      if (std::isnan(want)) {
        EXPECT_EQ(f16, 0x7FFF);
      } else {
        EXPECT_EQ(std::signbit(got), std::signbit(want));
      }
    }
  }
}

TEST(TensorTypesTest, ReadsIntegers) {
  EXPECT_EQ(integer_value(ElementType::kS8, 0x80), -128);
  EXPECT_EQ(integer_value(ElementType::kU8, 0x80), 128);
  EXPECT_EQ(integer_value(ElementType::kS4, 0x58), -8);
  EXPECT_EQ(integer_value(ElementType::kS4, 0x57), 7);
  EXPECT_EQ(integer_value(ElementType::kU4, 0x5F), 15);
}

TEST(TensorTypesTest, HasNoFloatFormatForIntegers) {
  EXPECT_THROW(format_of(ElementType::kS8), InvalidArgument);
}

}  // namespace
}  // namespace mpfa::sim
