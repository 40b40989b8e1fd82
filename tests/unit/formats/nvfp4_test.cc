#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "unit/formats/format_traits.h"
#include "unit/formats/nvfp4_oracle.h"

namespace mpfa::format_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr ScaleRule kRules[] = {ScaleRule::kPlain, ScaleRule::kSearch};

struct Unpacked {
  int scale;
  std::array<int, 16> codes;
  friend bool operator==(const Unpacked&, const Unpacked&) = default;
};

Unpacked quantize(const oracle::Block& x, ScaleRule rule) {
  float array[16];
  std::copy(x.begin(), x.end(), array);
  const Nvfp4Block block = nvfp4_quantize(array, rule);
  Unpacked result{block.scale, {}};
  for (int i = 0; i < 16; i += 2) {
    result.codes[i] = block.codes[i / 2] % 16;
    result.codes[i + 1] = block.codes[i / 2] / 16;
  }
  return result;
}

oracle::Block filled(float value) {
  oracle::Block x;
  x.fill(value);
  return x;
}

// A block whose largest magnitude is `amax`, at a place that is not the first.
oracle::Block with_amax(float amax) {
  oracle::Block x = filled(0.0f);
  x[11] = -amax;
  return x;
}

void expect_like_oracle(const oracle::Block& x) {
  const oracle::QuantizedBlock plain = oracle::quantize_plain(x);
  const oracle::QuantizedBlock search = oracle::quantize_search(x);
  EXPECT_EQ(quantize(x, ScaleRule::kPlain), (Unpacked{plain.scale, plain.codes}));
  EXPECT_EQ(quantize(x, ScaleRule::kSearch), (Unpacked{search.scale, search.codes}));
}

constexpr Nvfp4Block ramp(ScaleRule rule) {
  const float x[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  return nvfp4_quantize(x, rule);
}
static_assert(ramp(ScaleRule::kPlain).scale == 0x38);
static_assert(ramp(ScaleRule::kPlain) == ramp(ScaleRule::kSearch));
static_assert(ramp(ScaleRule::kPlain).codes[0] == 0x10 && ramp(ScaleRule::kPlain).codes[7] == 0xFE);
static_assert(nvfp4_code(ramp(ScaleRule::kPlain), 0) == 0 &&
              nvfp4_code(ramp(ScaleRule::kPlain), 1) == 1 &&
              nvfp4_code(ramp(ScaleRule::kPlain), 15) == 15);
static_assert(nvfp4_value(0x38, 13) == -3.0f && nvfp4_value(0x7E, 7) == 2688.0f);

TEST(Nvfp4, ElementTwoIIsInTheLowNibble) {
  const Nvfp4Block block = ramp(ScaleRule::kPlain);
  for (int i = 0; i < 16; ++i) {
    const int byte = block.codes[i / 2];
    EXPECT_EQ(nvfp4_code(block, i), i % 2 == 0 ? byte % 16 : byte / 16) << i;
    EXPECT_EQ(nvfp4_code(block, i) % 8, i % 8) << i;
  }
}

TEST(Nvfp4, ZeroBlockHasScaleZeroAndCodesZero) {
  for (const ScaleRule rule : kRules) {
    EXPECT_EQ(quantize(filled(0.0f), rule), (Unpacked{0, {}}));
  }
}

TEST(Nvfp4, NegativeZeroKeepsItsSign) {
  oracle::Block x = filled(0.0f);
  x[3] = -0.0f;
  for (const ScaleRule rule : kRules) {
    Unpacked expected{0, {}};
    expected.codes[3] = 8;
    EXPECT_EQ(quantize(x, rule), expected);
    x[4] = 6.0f;
    expected.scale = 0x38;
    expected.codes[4] = 7;
    EXPECT_EQ(quantize(x, rule), expected);
    x[4] = 0.0f;
  }
}

TEST(Nvfp4, ScaleRoundsToZeroBelowHalfTheSmallestScale) {
  // amax / 6 = 2^-10 is the tie of scale codes 0 and 1.
  const float tie = 6 * 0x1p-10f;
  for (const float amax : {std::numeric_limits<float>::denorm_min(), 1e-30f, 0x1p-126f,
                           std::nextafter(tie, 0.0f), tie}) {
    oracle::Block x = filled(amax);
    x[7] = -amax;
    for (const ScaleRule rule : kRules) {
      Unpacked expected{0, {}};
      expected.codes[7] = 8;
      EXPECT_EQ(quantize(x, rule), expected) << amax;
    }
  }
  EXPECT_EQ(quantize(with_amax(std::nextafter(tie, 1.0f)), ScaleRule::kPlain).scale, 1);
  EXPECT_EQ(quantize(with_amax(std::nextafter(tie, 1.0f)), ScaleRule::kSearch).scale, 1);
}

TEST(Nvfp4, PlainScaleTiesGoToTheEvenCode) {
  const struct {
    float amax;
    int scale;
  } cases[] = {{6 * 1.0625f, 0x38},      {6 * 1.1875f, 0x3A},      {6 * 1.9375f, 0x40},
               {6 * 3 * 0x1p-10f, 0x02}, {6 * 5 * 0x1p-10f, 0x02}, {6 * 0x1.Ep-7f, 0x08},
               {6 * 432.0f, 0x7E}};
  for (const auto& c : cases) {
    EXPECT_EQ(quantize(with_amax(c.amax), ScaleRule::kPlain).scale, c.scale) << c.amax;
    const int below = quantize(with_amax(std::nextafter(c.amax, 0.0f)), ScaleRule::kPlain).scale;
    const int above = quantize(with_amax(std::nextafter(c.amax, kInf)), ScaleRule::kPlain).scale;
    EXPECT_EQ(below + 1, above) << c.amax;
  }
}

// Around every tie of the scale, and at every scale exactly, both rules do as the oracle.
TEST(Nvfp4, EveryScaleAndEveryTie) {
  for (int code = 0; code < 0x7E; ++code) {
    for (const double scale :
         {oracle::e4m3_table().value(code), oracle::e4m3_table().midpoint_above(code)}) {
      const float amax = static_cast<float>(6 * scale);
      for (const float x : {std::nextafter(amax, 0.0f), amax, std::nextafter(amax, kInf)}) {
        expect_like_oracle(with_amax(x));
        expect_like_oracle(filled(x));
      }
    }
  }
}

TEST(Nvfp4, HugeValuesSaturate) {
  for (const float huge : {2688.0f, 2700.0f, 2688.0f * 1.5f, 1e10f, 1e18f}) {
    oracle::Block x = filled(1.0f);
    x[5] = -huge;
    const Unpacked plain = quantize(x, ScaleRule::kPlain);
    EXPECT_EQ(plain.scale, 0x7E) << huge;
    EXPECT_EQ(plain.codes[5], 15) << huge;
    expect_like_oracle(x);
  }
}

TEST(Nvfp4, InfinitySaturates) {
  for (const float infinity : {kInf, -kInf}) {
    for (int place = 0; place < 16; ++place) {
      oracle::Block x = filled(100.0f);
      x[place] = infinity;
      const Unpacked plain = quantize(x, ScaleRule::kPlain);
      const Unpacked search = quantize(x, ScaleRule::kSearch);
      EXPECT_EQ(plain.scale, 0x7E);
      // Every candidate's error is infinite, so the first one stays.
      EXPECT_EQ(search.scale, 0x7D);
      EXPECT_EQ(plain.codes[place], infinity > 0 ? 7 : 15);
      EXPECT_EQ(search.codes[place], infinity > 0 ? 7 : 15);
      expect_like_oracle(x);
    }
  }
}

// Squares overflow FP32 from about 1.8e19: all errors are infinite, and still no NaN comes of it.
TEST(Nvfp4, OverflowingErrorsKeepTheFirstCandidate) {
  for (const float huge : {2e19f, 1e30f, std::numeric_limits<float>::max()}) {
    oracle::Block x = filled(-1.0f);
    x[0] = huge;
    const Unpacked search = quantize(x, ScaleRule::kSearch);
    EXPECT_EQ(search.scale, 0x7D) << huge;
    EXPECT_EQ(search.codes[0], 7) << huge;
    expect_like_oracle(x);
  }
}

TEST(Nvfp4, NanAnywhereShowsInTheWholeBlock) {
  std::array<int, 16> all_six;
  all_six.fill(7);
  for (const uint32_t bits : {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFFFFFFFFu}) {
    for (const float other : {0.0f, 1.0f, -1e-30f, kInf, -kInf}) {
      for (int place = 0; place < 16; ++place) {
        oracle::Block x = filled(other);
        x[place] = float_of(bits);
        for (const ScaleRule rule : kRules) {
          EXPECT_EQ(quantize(x, rule), (Unpacked{0x7F, all_six}));
        }
      }
    }
  }
  EXPECT_TRUE(std::isnan(nvfp4_value(0x7F, 7)));
  EXPECT_TRUE(std::isnan(nvfp4_value(0x7F, 0)));
}

TEST(Nvfp4, EqualErrorsKeepTheEarlierScale) {
  // 6 is exact with scale 1 (code 6) and with scale 1.5 (code 4).
  EXPECT_EQ(quantize(with_amax(6.0f), ScaleRule::kSearch).scale, 0x38);
  // Likewise with scales that are multiples of the smallest one: 6 * 2 steps = 4 * 3 steps.
  EXPECT_EQ(quantize(with_amax(12 * 0x1p-9f), ScaleRule::kSearch).scale, 0x02);
}

TEST(Nvfp4, SearchReachesOneBelowAndFourAbove) {
  // Blocks that are exact with one scale only, `step` codes from that of amax / 6.
  const struct {
    std::vector<float> values;
    int scale;
    int step;
  } cases[] = {
      {{6 * 1.125f, 3 * 1.125f, 0.5f * 1.125f}, 0x39, 0},
      // All at 4: scale 1.5 is exact where 1 and its neighbours are not, given the small values.
      {{6.0f, 2.25f, 0.75f, 4.5f}, 0x3C, 4},
  };
  for (const auto& c : cases) {
    oracle::Block x = filled(0.0f);
    std::copy(c.values.begin(), c.values.end(), x.begin());
    EXPECT_EQ(quantize(x, ScaleRule::kPlain).scale, c.scale - c.step);
    EXPECT_EQ(quantize(x, ScaleRule::kSearch).scale, c.scale);
    expect_like_oracle(x);
  }
}

TEST(Nvfp4, EveryProductIsExactInFp32Bf16AndFp16) {
  for (int scale = 0; scale < 256; ++scale) {
    const int magnitude = scale % 0x80;
    for (int code = 0; code < 16; ++code) {
      const float value = nvfp4_value(static_cast<uint8_t>(scale), static_cast<uint8_t>(code));
      if (magnitude == 0x7F) {
        EXPECT_TRUE(std::isnan(value)) << scale << " " << code;
        continue;
      }
      const double s = (scale >= 0x80 ? -1 : 1) * oracle::e4m3_table().value(magnitude);
      EXPECT_EQ(static_cast<double>(value), s * oracle::signed_e2m1_value(code));
      EXPECT_EQ(std::signbit(value), (scale >= 0x80) != (code >= 8));
      EXPECT_EQ(bits_of(bf16_to_float(bf16_from_float(value))), bits_of(value));
      EXPECT_EQ(bits_of(fp16_to_float(fp16_from_float(value))), bits_of(value));
      // Six significant bits and well inside FP16's normal range.
      int exponent;
      const double fraction = std::frexp(std::fabs(value), &exponent);
      EXPECT_EQ(fraction * 64, std::floor(fraction * 64));
      EXPECT_TRUE(value == 0 || (std::fabs(value) >= 0x1p-10 && std::fabs(value) <= 2688));
    }
  }
}

TEST(Nvfp4, GivenScaleIsUsedAsItIs) {
  oracle::Block x;
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>((i - 7) * 0.3);
  x[2] = kInf;
  x[9] = -1e38f;
  for (int scale = 0; scale <= 0x7E; ++scale) {
    float array[16];
    std::copy(x.begin(), x.end(), array);
    // Infinity times the zero of a zero scale has no meaning; nvfp4_quantize never asks for it.
    if (scale == 0) array[2] = x[2] = 1.0f;
    const Nvfp4Block block = nvfp4_quantize_with_scale(array, static_cast<uint8_t>(scale));
    const oracle::QuantizedBlock expected = oracle::quantize_with_scale(x, scale);
    EXPECT_EQ(block.scale, scale);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(nvfp4_code(block, i), expected.codes[i]) << scale;
    EXPECT_EQ(nvfp4_squared_error(array, block), expected.error) << scale;
  }
}

}  // namespace
}  // namespace mpfa::format_test
