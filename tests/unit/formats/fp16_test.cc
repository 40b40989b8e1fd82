#include <gtest/gtest.h>

#include <limits>

#include "unit/formats/format_traits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mpfa::format_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr uint16_t code_of(float x) { return fp16_from_float(x).bits; }

static_assert(code_of(0.0f) == 0x0000 && code_of(-0.0f) == 0x8000);
static_assert(code_of(1.0f) == 0x3C00 && code_of(-2.0f) == 0xC000);
static_assert(code_of(kInf) == 0x7C00 && code_of(-kInf) == 0xFC00 && code_of(kNan) == 0x7E00);
static_assert(code_of(65504.0f) == 0x7BFF && code_of(0x1p-24f) == 0x0001);
static_assert(fp16_to_float({0x3E00}) == 1.5f && fp16_to_float({0xFC00}) == -kInf);
static_assert(fp16_to_float({0x0001}) == 0x1p-24f && fp16_to_float({0x0400}) == 0x1p-14f);

TEST(Fp16, EveryPatternHasItsValueAndRoundTrips) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const uint16_t code = static_cast<uint16_t>(bits);
    const float value = fp16_to_float({code});
    const int magnitude = code % 0x8000;
    ASSERT_EQ(std::signbit(value), code >= 0x8000) << code;
    if (magnitude > 0x7C00) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_EQ(code_of(value), code | 0x200) << code;  // a signalling NaN becomes quiet
      continue;
    }
    const double expected =
        magnitude == 0x7C00 ? static_cast<double>(kInf) : oracle::fp16_table().value(magnitude);
    ASSERT_EQ(std::fabs(value), expected) << code;
    ASSERT_EQ(code_of(value), code);
  }
}

TEST(Fp16, TiesGoToTheEvenCode) {
  EXPECT_EQ(code_of(0x1.002p0f), 0x3C00);
  EXPECT_EQ(code_of(0x1.006p0f), 0x3C02);
  EXPECT_EQ(code_of(-0x1.006p0f), 0xBC02);
  EXPECT_EQ(code_of(0x1.FFEp0f), 0x4000);  // across a power of two
  EXPECT_EQ(code_of(std::nextafter(0x1.002p0f, kInf)), 0x3C01);
}

TEST(Fp16, OverflowGivesInfinity) {
  EXPECT_EQ(code_of(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(code_of(65520.0f), 0x7C00);  // halfway to 65536
  EXPECT_EQ(code_of(-65520.0f), 0xFC00);
  EXPECT_EQ(code_of(1e30f), 0x7C00);
}

TEST(Fp16, Subnormals) {
  EXPECT_EQ(code_of(0x1p-25f), 0x0000);  // tie with 0
  EXPECT_EQ(code_of(-0x1p-25f), 0x8000);
  EXPECT_EQ(code_of(std::nextafter(0x1p-25f, kInf)), 0x0001);
  EXPECT_EQ(code_of(3 * 0x1p-25f), 0x0002);
  EXPECT_EQ(code_of(0x1.FF8p-15f), 0x03FF);  // the largest subnormal
  EXPECT_EQ(code_of(0x1.FFCp-15f), 0x0400);  // tie with the smallest normal
  EXPECT_EQ(code_of(std::numeric_limits<float>::denorm_min()), 0x0000);
}

TEST(Fp16, NanKeepsSignAndPayloadAndBecomesQuiet) {
  EXPECT_EQ(code_of(float_of(0x7F800001u)), 0x7E00);  // payload entirely in the bits that are lost
  EXPECT_EQ(code_of(float_of(0xFF800001u)), 0xFE00);
  EXPECT_EQ(code_of(float_of(0x7FFFFFFFu)), 0x7FFF);
  EXPECT_EQ(code_of(float_of(0x7F802000u)), 0x7E01);
}

#if defined(__x86_64__)
// The CPU's own conversion as a second opinion, NaN payloads included.
__attribute__((target("f16c"))) void compare_with_cpu(uint32_t count) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const float x = float_of(bits);
    ASSERT_EQ(code_of(x), _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)) << std::hex << bits;
    bits += 0x9E3779B1u;
  }
  for (uint32_t code = 0; code <= 0xFFFF; ++code) {
    const float x = fp16_to_float({static_cast<uint16_t>(code)});
    const float cpu = _cvtsh_ss(static_cast<uint16_t>(code));
    if (std::isnan(x)) {
      ASSERT_EQ(bits_of(x) | 0x400000u, bits_of(cpu)) << code;  // the CPU makes it quiet
    } else {
      ASSERT_EQ(bits_of(x), bits_of(cpu)) << code;
    }
  }
}

TEST(Fp16, AgreesWithTheCpu) {
  // Every CPU with AVX2 has F16C, whose name clang 14 does not know here.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU does not convert FP16";
  compare_with_cpu(1u << 22);
}
#endif

}  // namespace
}  // namespace mpfa::format_test
