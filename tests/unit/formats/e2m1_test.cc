#include <gtest/gtest.h>

#include <limits>

#include "unit/formats/format_traits.h"

namespace mpfa::format_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

static_assert(e2m1_from_float(0.0f) == 0 && e2m1_from_float(-0.0f) == 8);
static_assert(e2m1_from_float(6.0f) == 7 && e2m1_from_float(-6.0f) == 15);
static_assert(e2m1_from_float(kInf) == 7 && e2m1_from_float(-kInf) == 15);
static_assert(e2m1_from_float(kNan) == 7);
static_assert(e2m1_to_float(5) == 3.0f && e2m1_to_float(13) == -3.0f);
static_assert(kE2m1Max == 6.0f);

TEST(E2m1, EveryCodeHasItsValueAndRoundTrips) {
  const float values[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (uint8_t code = 0; code < 8; ++code) {
    const uint8_t negative = code | 8;
    EXPECT_EQ(e2m1_to_float(code), values[code]);
    EXPECT_EQ(e2m1_to_float(negative), -values[code]);
    EXPECT_FALSE(std::signbit(e2m1_to_float(code)));
    EXPECT_TRUE(std::signbit(e2m1_to_float(negative)));
    EXPECT_EQ(e2m1_from_float(e2m1_to_float(code)), code);
    EXPECT_EQ(e2m1_from_float(e2m1_to_float(negative)), negative);
    EXPECT_EQ(oracle::e2m1_table().value(code), values[code]);
  }
}

TEST(E2m1, DecodingIgnoresTheHighNibble) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(bits_of(e2m1_to_float(static_cast<uint8_t>(byte))),
              bits_of(e2m1_to_float(static_cast<uint8_t>(byte % 16))));
  }
}

TEST(E2m1, TiesGoToTheEvenCode) {
  const struct {
    float tie;
    uint8_t code;
  } cases[] = {{0.25f, 0}, {0.75f, 2}, {1.25f, 2}, {1.75f, 4}, {2.5f, 4}, {3.5f, 6}, {5.0f, 6}};
  for (const auto& c : cases) {
    EXPECT_EQ(e2m1_from_float(c.tie), c.code) << c.tie;
    EXPECT_EQ(e2m1_from_float(-c.tie), c.code | 8) << c.tie;
    // One step off the tie decides by distance.
    const uint8_t low = e2m1_from_float(std::nextafter(c.tie, 0.0f));
    const uint8_t high = e2m1_from_float(std::nextafter(c.tie, kInf));
    EXPECT_EQ(low + 1, high) << c.tie;
    EXPECT_TRUE(c.code == low || c.code == high) << c.tie;
  }
}

TEST(E2m1, SmallAndHugeValues) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(e2m1_from_float(smallest), 0);
  EXPECT_EQ(e2m1_from_float(-smallest), 8);
  EXPECT_EQ(e2m1_from_float(std::numeric_limits<float>::min()), 0);
  for (const float x : {6.0f, 6.5f, 7.0f, 8.0f, 448.0f, 1e30f, kInf}) {
    EXPECT_EQ(e2m1_from_float(x), 7) << x;
    EXPECT_EQ(e2m1_from_float(-x), 15) << x;
  }
}

TEST(E2m1, EveryNanGivesPlusSix) {
  for (const uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFC12345u}) {
    EXPECT_EQ(e2m1_from_float(float_of(bits)), 7) << std::hex << bits;
  }
}

}  // namespace
}  // namespace mpfa::format_test
