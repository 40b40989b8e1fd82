// Rounding of FP32 into every format, compared with the table oracle: all BF16 and FP16 patterns,
// all places where rounding changes, and a spread of the 2^32 FP32 patterns.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ios>
#include <limits>
#include <string>

#include "unit/formats/format_traits.h"

namespace mpfa::format_test {
namespace {

constexpr int kMaxFailures = 10;

// Reports without stopping, but not millions of times.
class FailureLog {
 public:
  // False once enough is known.
  bool add(const char* format, float x, uint32_t code) {
    ADD_FAILURE() << format << " of " << std::hexfloat << x << " (bits 0x" << std::hex << bits_of(x)
                  << ") gave code 0x" << code;
    return ++count_ < kMaxFailures;
  }

 private:
  int count_ = 0;
};

template <typename Format>
class RoundingTest : public ::testing::Test {
 protected:
  // By search: true unless there are too many failures to go on.
  bool check(float x) {
    const uint32_t code = Format::encode(x);
    return code == expected_code<Format>(x) || failures_.add(Format::kName, x, code);
  }
  bool check_both_signs(float x) { return check(x) && check(-x); }

  FailureLog failures_;
};

struct FormatNames {
  template <typename Format>
  // NOLINTNEXTLINE(readability-identifier-naming): the name GoogleTest asks for
  static std::string GetName(int) {
    return Format::kName;
  }
};
using Formats = ::testing::Types<Bf16Format, Fp16Format, E4m3Format, E2m1Format>;
TYPED_TEST_SUITE(RoundingTest, Formats, FormatNames);

TYPED_TEST(RoundingTest, EveryBf16Pattern) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    if (!this->check(bf16_to_float({static_cast<uint16_t>(bits)}))) return;
  }
}

TYPED_TEST(RoundingTest, EveryFp16Pattern) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    if (!this->check(fp16_to_float({static_cast<uint16_t>(bits)}))) return;
  }
}

// Rounding is a staircase; these are the floats on and beside each of its steps. Together with the
// sweep below, which finds no step anywhere else, they pin it down.
TYPED_TEST(RoundingTest, EveryValueAndMidpointWithItsNeighbours) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const oracle::ValueTable& table = TypeParam::table();
  for (int code = 0; code < table.last_code(); ++code) {
    for (const double centre : {table.value(code), table.midpoint_above(code)}) {
      const float x = static_cast<float>(centre);
      ASSERT_EQ(static_cast<double>(x), centre);
      float below = x;
      float above = x;
      if (!this->check_both_signs(x)) return;
      for (int ulps = 0; ulps < 3; ++ulps) {
        below = std::nextafter(below, -kInf);
        above = std::nextafter(above, kInf);
        if (!this->check_both_signs(below) || !this->check_both_signs(above)) return;
      }
    }
  }
}

// 2^24 patterns, made by an odd stride through all 2^32: every exponent and sign gets about
// 2^15 of them, NaNs included. MPFA_TEST_ALL_FLOATS=1 in the environment takes every FP32 pattern
// instead.
TYPED_TEST(RoundingTest, SpreadFp32Patterns) {
  const bool all = std::getenv("MPFA_TEST_ALL_FLOATS") != nullptr;
  const uint64_t count = all ? uint64_t{1} << 32 : uint64_t{1} << 24;
  const oracle::ValueTable& table = TypeParam::table();
  uint32_t bits = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const float x = float_of(bits);
    const uint32_t code = TypeParam::encode(x);
    if (!code_is_right<TypeParam>(table, x, code) &&
        !this->failures_.add(TypeParam::kName, x, code)) {
      return;
    }
    bits += 0x9E3779B1u;
  }
}

// The two forms of the oracle must agree, or the sweep proves nothing.
TYPED_TEST(RoundingTest, OracleFormsAgree) {
  const oracle::ValueTable& table = TypeParam::table();
  const uint32_t last = static_cast<uint32_t>(table.last_code());
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    const float x = float_of(i * 0x9E3779B1u);
    if (std::isnan(x)) continue;
    const uint32_t code = expected_code<TypeParam>(x);
    EXPECT_TRUE(code_is_right<TypeParam>(table, x, code)) << x;
    EXPECT_FALSE(code_is_right<TypeParam>(table, x, code ^ TypeParam::kSignBit)) << x;
    const uint32_t magnitude = code % TypeParam::kSignBit;
    EXPECT_FALSE(magnitude > 0 && code_is_right<TypeParam>(table, x, code - 1)) << x;
    EXPECT_FALSE(magnitude < last && code_is_right<TypeParam>(table, x, code + 1)) << x;
  }
}

}  // namespace
}  // namespace mpfa::format_test
