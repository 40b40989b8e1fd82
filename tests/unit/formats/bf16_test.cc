#include <gtest/gtest.h>

#include <limits>

#include "unit/formats/format_traits.h"

namespace mpfa::format_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr uint16_t code_of(float x) { return bf16_from_float(x).bits; }

static_assert(code_of(0.0f) == 0x0000 && code_of(-0.0f) == 0x8000);
static_assert(code_of(1.0f) == 0x3F80 && code_of(-2.0f) == 0xC000);
static_assert(code_of(kInf) == 0x7F80 && code_of(-kInf) == 0xFF80 && code_of(kNan) == 0x7FC0);
static_assert(bf16_to_float({0x3FC0}) == 1.5f && bf16_to_float({0xFF80}) == -kInf);

TEST(Bf16, EveryPatternHasItsValueAndRoundTrips) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const uint16_t code = static_cast<uint16_t>(bits);
    const float value = bf16_to_float({code});
    const int magnitude = code % 0x8000;
    ASSERT_EQ(std::signbit(value), code >= 0x8000) << code;
    if (magnitude > 0x7F80) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_EQ(code_of(value), code | 0x40) << code;  // a signalling NaN becomes quiet
      continue;
    }
    const double expected =
        magnitude == 0x7F80 ? static_cast<double>(kInf) : oracle::bf16_table().value(magnitude);
    ASSERT_EQ(std::fabs(value), expected) << code;
    ASSERT_EQ(code_of(value), code);
  }
}

TEST(Bf16, TiesGoToTheEvenCode) {
  EXPECT_EQ(code_of(0x1.01p0f), 0x3F80);
  EXPECT_EQ(code_of(0x1.03p0f), 0x3F82);
  EXPECT_EQ(code_of(-0x1.03p0f), 0xBF82);
  EXPECT_EQ(code_of(0x1.FFp0f), 0x4000);  // across a power of two
  EXPECT_EQ(code_of(std::nextafter(0x1.01p0f, kInf)), 0x3F81);
  EXPECT_EQ(code_of(std::nextafter(0x1.03p0f, 0.0f)), 0x3F81);
}

TEST(Bf16, OverflowGivesInfinity) {
  EXPECT_EQ(code_of(0x1.FEp127f), 0x7F7F);  // the largest value
  EXPECT_EQ(code_of(std::nextafter(0x1.FFp127f, 0.0f)), 0x7F7F);
  EXPECT_EQ(code_of(0x1.FFp127f), 0x7F80);  // halfway to 2^128
  EXPECT_EQ(code_of(-std::numeric_limits<float>::max()), 0xFF80);
}

TEST(Bf16, SubnormalsAreKept) {
  EXPECT_EQ(code_of(0x1p-133f), 0x0001);
  EXPECT_EQ(code_of(0x1p-134f), 0x0000);  // tie with 0
  EXPECT_EQ(code_of(std::nextafter(0x1p-134f, kInf)), 0x0001);
  EXPECT_EQ(code_of(3 * 0x1p-134f), 0x0002);
  EXPECT_EQ(code_of(std::numeric_limits<float>::min()), 0x0080);
  EXPECT_EQ(code_of(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Bf16, NanKeepsSignAndPayloadAndBecomesQuiet) {
  EXPECT_EQ(code_of(float_of(0x7F800001u)), 0x7FC0);  // payload entirely in the bits that are lost
  EXPECT_EQ(code_of(float_of(0xFF800001u)), 0xFFC0);
  EXPECT_EQ(code_of(float_of(0x7FFFFFFFu)), 0x7FFF);  // must not round up into a number
  EXPECT_EQ(code_of(float_of(0xFFFFFFFFu)), 0xFFFF);
  EXPECT_EQ(code_of(float_of(0x7FA50000u)), 0x7FE5);
}

}  // namespace
}  // namespace mpfa::format_test
