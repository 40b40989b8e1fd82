// The scale search on random blocks of many magnitudes, against the brute force of nvfp4_oracle.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "mpfa/formats.h"
#include "unit/formats/nvfp4_oracle.h"

namespace mpfa::format_test {
namespace {

using Generator = std::mt19937;

// What a family of blocks gave, summed over all of them.
struct Summary {
  int blocks = 0;
  int search_won = 0;
  int zero_scales = 0;
  int subnormal_scales = 0;  // codes 1 to 7
  int largest_scale = 0;
  double plain_error = 0;
  double search_error = 0;
};

double exact_error(const oracle::Block& x, const Nvfp4Block& block) {
  double sum = 0;
  for (int i = 0; i < 16; ++i) {
    const double value =
        oracle::e4m3_table().value(block.scale) * oracle::signed_e2m1_value(nvfp4_code(block, i));
    sum += (value - x[i]) * (value - x[i]);
  }
  return sum;
}

void expect_equal(const Nvfp4Block& block, const oracle::QuantizedBlock& expected) {
  ASSERT_EQ(block.scale, expected.scale);
  for (int i = 0; i < 16; ++i) {
    const int byte = block.codes[i / 2];
    ASSERT_EQ(i % 2 == 0 ? byte % 16 : byte / 16, expected.codes[i]) << i;
  }
}

// True unless the block failed.
bool check_block(const oracle::Block& x, Summary& summary) {
  float array[16];
  std::copy(x.begin(), x.end(), array);
  const Nvfp4Block plain = nvfp4_quantize(array, ScaleRule::kPlain);
  const Nvfp4Block search = nvfp4_quantize(array, ScaleRule::kSearch);
  const oracle::QuantizedBlock expected_plain = oracle::quantize_plain(x);
  const oracle::QuantizedBlock expected_search = oracle::quantize_search(x);
  expect_equal(plain, expected_plain);
  expect_equal(search, expected_search);
  EXPECT_EQ(nvfp4_squared_error(array, search), expected_search.error);
  EXPECT_LE(expected_search.error, expected_plain.error);

  const double plain_error = exact_error(x, plain);
  const double search_error = exact_error(x, search);
  // The search compares FP32 errors; in exact arithmetic it may lose by their rounding, no more.
  EXPECT_LE(search_error, plain_error * (1 + 0x1p-20));
  summary.blocks += 1;
  summary.search_won += expected_search.error < expected_plain.error;
  summary.zero_scales += plain.scale == 0;
  summary.subnormal_scales += plain.scale >= 1 && plain.scale <= 7;
  summary.largest_scale += plain.scale == 0x7E;
  if (plain_error > 0) {
    summary.plain_error += 1;
    summary.search_error += search_error / plain_error;
  }
  return !::testing::Test::HasFailure();
}

Summary check_blocks(int count, const std::function<oracle::Block(Generator&)>& make) {
  Generator generator(20240917);
  Summary summary;
  for (int i = 0; i < count; ++i) {
    const oracle::Block x = make(generator);
    if (check_block(x, summary)) continue;
    for (const float value : x) std::printf("%a, ", static_cast<double>(value));
    std::printf("<- the block that failed\n");
    break;
  }
  return summary;
}

oracle::Block normal_block(Generator& generator, float deviation) {
  std::normal_distribution<float> normal;
  oracle::Block x;
  for (float& value : x) value = normal(generator) * deviation;
  return x;
}

TEST(Nvfp4Search, NormalBlocksOfManyMagnitudes) {
  // From far below the smallest scale to far above the largest.
  const Summary summary = check_blocks(60000, [](Generator& generator) {
    const int exponent = std::uniform_int_distribution<int>(-20, 24)(generator);
    return normal_block(generator, std::ldexp(1.0f, exponent));
  });
  EXPECT_GT(summary.zero_scales, 1000);
  EXPECT_GT(summary.subnormal_scales, 1000);
  EXPECT_GT(summary.largest_scale, 1000);
}

TEST(Nvfp4Search, LowersTheErrorOfOrdinaryBlocks) {
  const Summary summary =
      check_blocks(20000, [](Generator& generator) { return normal_block(generator, 1.0f); });
  EXPECT_GT(summary.search_won, summary.blocks / 2);
  // In the mean over blocks the squared error falls by about a fifth.
  EXPECT_LT(summary.search_error, 0.9 * summary.plain_error);
}

TEST(Nvfp4Search, SubnormalScales) {
  const Summary summary = check_blocks(20000, [](Generator& generator) {
    const float amax = std::uniform_real_distribution<float>(0x1p-9f, 0x1p-4f)(generator);
    oracle::Block x;
    for (float& value : x) value = std::uniform_real_distribution<float>(-amax, amax)(generator);
    return x;
  });
  EXPECT_GT(summary.subnormal_scales, summary.blocks / 2);
}

// Values on a coarse grid: many are exact with several scales, or lie halfway between two codes.
TEST(Nvfp4Search, BlocksFullOfTies) {
  check_blocks(40000, [](Generator& generator) {
    const int exponent = std::uniform_int_distribution<int>(-9, 8)(generator);
    const int largest = std::uniform_int_distribution<int>(1, 24)(generator);
    oracle::Block x;
    for (float& value : x) {
      const int steps = std::uniform_int_distribution<int>(-largest, largest)(generator);
      value = std::ldexp(static_cast<float>(steps) * 0.25f, exponent);
    }
    return x;
  });
}

TEST(Nvfp4Search, OutliersDenormalsAndSpecialValues) {
  check_blocks(40000, [](Generator& generator) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    const float special[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-140f, 1e-38f, 448.0f, 2688.0f, 1e10f};
    oracle::Block x = normal_block(generator, 0.1f);
    const int count = std::uniform_int_distribution<int>(1, 3)(generator);
    for (int i = 0; i < count; ++i) {
      const int place = std::uniform_int_distribution<int>(0, 15)(generator);
      x[place] = special[std::uniform_int_distribution<int>(0, 7)(generator)];
    }
    const int outlier = std::uniform_int_distribution<int>(0, 15)(generator);
    x[outlier] *= std::ldexp(1.0f, std::uniform_int_distribution<int>(0, 12)(generator));
    EXPECT_LT(std::fabs(x[outlier]), kInf);
    return x;
  });
}

}  // namespace
}  // namespace mpfa::format_test
