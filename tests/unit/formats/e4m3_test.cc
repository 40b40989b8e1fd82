#include <gtest/gtest.h>

#include <limits>

#include "unit/formats/format_traits.h"

namespace mpfa::format_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr uint8_t code_of(float x) { return e4m3_from_float(x).bits; }

static_assert(code_of(0.0f) == 0x00 && code_of(-0.0f) == 0x80);
static_assert(code_of(1.0f) == 0x38 && code_of(-1.0f) == 0xB8);
static_assert(code_of(448.0f) == 0x7E && code_of(-448.0f) == 0xFE);
static_assert(code_of(kInf) == 0x7E && code_of(kNan) == 0x7F);
static_assert(code_of(0x1p-9f) == 0x01 && code_of(0x1p-6f) == 0x08);
static_assert(e4m3_to_float({0x7E}) == kE4m3Max && e4m3_to_float({0x01}) == 0x1p-9f);
static_assert(kE4m3MaxCode == 0x7E && kE4m3NanCode == 0x7F);

TEST(E4m3, EveryCodeHasItsValueAndRoundTrips) {
  for (int code = 0; code <= 0x7E; ++code) {
    const uint8_t positive = static_cast<uint8_t>(code);
    const uint8_t negative = static_cast<uint8_t>(code + 0x80);
    const double value = oracle::e4m3_table().value(code);
    EXPECT_EQ(e4m3_to_float({positive}), value);
    EXPECT_EQ(e4m3_to_float({negative}), -value);
    EXPECT_FALSE(std::signbit(e4m3_to_float({positive})));
    EXPECT_TRUE(std::signbit(e4m3_to_float({negative})));
    EXPECT_EQ(code_of(e4m3_to_float({positive})), positive);
    EXPECT_EQ(code_of(e4m3_to_float({negative})), negative);
  }
}

TEST(E4m3, NanHasOneCodeForEachSign) {
  EXPECT_EQ(bits_of(e4m3_to_float({0x7F})), 0x7FC00000u);
  EXPECT_EQ(bits_of(e4m3_to_float({0xFF})), 0xFFC00000u);
  for (const uint32_t payload : {0x000001u, 0x123456u, 0x400000u, 0x7FFFFFu}) {
    EXPECT_EQ(code_of(float_of(0x7F800000u + payload)), 0x7F) << payload;
    EXPECT_EQ(code_of(float_of(0xFF800000u + payload)), 0xFF) << payload;
  }
}

TEST(E4m3, Saturates) {
  // 464 is halfway to where the next value would be, 480 is that value's place.
  for (const float x : {448.0f, 449.0f, 463.0f, 464.0f, 465.0f, 479.0f, 480.0f, 496.0f, 512.0f,
                        1e30f, std::numeric_limits<float>::max(), kInf}) {
    EXPECT_EQ(code_of(x), 0x7E) << x;
    EXPECT_EQ(code_of(-x), 0xFE) << x;
  }
  EXPECT_EQ(code_of(432.0f), 0x7E);  // tie of 416 and 448
  EXPECT_EQ(code_of(std::nextafter(432.0f, 0.0f)), 0x7D);
}

TEST(E4m3, TiesGoToTheEvenCode) {
  EXPECT_EQ(code_of(1.0625f), 0x38);  // 1, 1.125
  EXPECT_EQ(code_of(1.1875f), 0x3A);  // 1.125, 1.25
  EXPECT_EQ(code_of(-1.1875f), 0xBA);
  EXPECT_EQ(code_of(1.9375f), 0x40);    // 1.875, 2: across a power of two
  EXPECT_EQ(code_of(0x1.Ep-7f), 0x08);  // 0x1.Cp-7, 0x1p-6: from subnormal to normal
}

TEST(E4m3, Subnormals) {
  EXPECT_EQ(code_of(0x1p-10f), 0x00);  // tie of 0 and the smallest value
  EXPECT_EQ(code_of(-0x1p-10f), 0x80);
  EXPECT_EQ(code_of(std::nextafter(0x1p-10f, kInf)), 0x01);
  EXPECT_EQ(code_of(3 * 0x1p-10f), 0x02);  // tie of 1 and 2 steps
  EXPECT_EQ(code_of(5 * 0x1p-10f), 0x02);  // tie of 2 and 3 steps
  EXPECT_EQ(code_of(7 * 0x1p-9f), 0x07);
  EXPECT_EQ(code_of(-7 * 0x1p-9f), 0x87);
}

TEST(E4m3, SmallestFloatsGiveZeroOfTheirSign) {
  for (const float x : {std::numeric_limits<float>::denorm_min(), 0x1p-140f,
                        std::numeric_limits<float>::min(), 1e-20f}) {
    EXPECT_EQ(code_of(x), 0x00) << x;
    EXPECT_EQ(code_of(-x), 0x80) << x;
  }
}

TEST(E4m3, EveryValueIsExactInBf16AndFp16) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float({static_cast<uint8_t>(code)});
    if (std::isnan(value)) continue;
    EXPECT_EQ(bits_of(bf16_to_float(bf16_from_float(value))), bits_of(value)) << code;
    EXPECT_EQ(bits_of(fp16_to_float(fp16_from_float(value))), bits_of(value)) << code;
  }
}

}  // namespace
}  // namespace mpfa::format_test
