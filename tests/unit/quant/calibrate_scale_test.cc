#include <gtest/gtest.h>

#include "mpfa/quant.h"
#include "unit/quant/calibrate_util.h"

namespace mpfa {
namespace {

using testing::Calibration;
using testing::expect_scales;
using testing::TestTensor;

TEST(CalibrateScaleTest, KScaleAndScaleRuleAreUsed) {
  TestTensor q(testing::kBF16, {30, 2, 64});
  TestTensor k(testing::kBF16, {50, 2, 64});
  q.fill_normal(7);
  k.fill_normal(8, 3);
  TestTensor k_scale(testing::kF32, {2}, {3});
  k_scale.at<float>(0) = 0.7f;
  k_scale.at<float>(1) = 3.0f;
  for (const ScaleRule rule : {ScaleRule::kPlain, ScaleRule::kSearch}) {
    Calibration c(2, 2, 8, 64);
    CalibrateParams params;
    params.scale_rule = rule;
    params.k_scale = k_scale.ptr();
    calibrate(q.dl(), k.dl(), c.out(), params);
    expect_scales(k, 50, c, {0.7f, 3.0f}, rule);
  }
}

TEST(CalibrateScaleTest, KeysWithoutErrorGiveOne) {
  TestTensor q(testing::kBF16, {30, 1, 64});
  q.fill_normal(7);
  TestTensor k(testing::kBF16, {50, 1, 64});
  k.fill([](const TestTensor::Shape& at) { return static_cast<float>(at[2] % 5) - 1.25f; });
  Calibration c(1, 1, 4, 64);
  calibrate(q.dl(), k.dl(), c.out());
  for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(c.scale.get({0, j}), 1.0f);
}

// Keys at both ends of FP32: whatever the errors are, the scale stays finite and above 0.
TEST(CalibrateScaleTest, ExtremeKeysGiveAUsableScale) {
  TestTensor q(testing::kF32, {30, 1, 64});
  q.fill_normal(7);
  for (const float size : {3.4e38f, 1e30f, 1e-30f, 1e-45f}) {
    TestTensor k(testing::kF32, {6, 1, 64});
    k.fill(
        [&](const TestTensor::Shape& at) { return (at[0] * 7 + at[2]) % 3 == 0 ? -size : size; });
    Calibration c(1, 1, 8, 64);
    calibrate(q.dl(), k.dl(), c.out());
    for (int64_t j = 0; j < 8; ++j) {
      const float scale = c.scale.get({0, j});
      EXPECT_TRUE(std::isfinite(scale) && scale > 0) << size << ": " << scale;
    }
    c.k_mean.for_each(
        [&](const TestTensor::Shape& at) { EXPECT_TRUE(std::isfinite(c.k_mean.get(at))); });
  }
}

}  // namespace
}  // namespace mpfa
