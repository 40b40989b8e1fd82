#include "core/value_checks.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "unit/core/expect_invalid.h"
#include "unit/core/test_tensor.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::kFloat32;
using core_test::TestTensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CheckPositive, EveryElementIsLookedAt) {
  TestTensor scales(kFloat32, {2, 3, 4});
  std::fill_n(scales.data<float>(), 24, std::numeric_limits<float>::denorm_min());
  const auto check = [&] { check_positive(Tensor<float, 3>::from(*scales, "p"), "p"); };
  check();
  for (int i = 0; i < 24; ++i) {
    for (const float bad : {0.0f, -0.0f, -1.0f, kInf, kNan}) {
      scales.data<float>()[i] = bad;
      const std::string index = str_cat("p[", i / 12, ", ", i / 4 % 3, ", ", i % 4, "] = ", bad);
      expect_invalid(check, {index, "must be finite and above 0"});
    }
    scales.data<float>()[i] = 1.0f;
  }
}

TEST(CheckPositive, OtherRanksStridesAbsentAndEmpty) {
  TestTensor line(kFloat32, {6});
  line.fill<float>({1, -1, 2, -1, -3, -1});
  line.set_shape({3});
  line.set_strides({2});
  expect_invalid([&] { check_positive(Tensor<float, 1>::from(*line, "k", false), "k_scale"); },
                 {"k_scale[2] = -3"});
  TestTensor plane(kFloat32, {2, 2});
  plane.fill<float>({1, 1, 1, 0});
  expect_invalid([&] { check_positive(Tensor<float, 2>::from(*plane, "v"), "v_scale"); },
                 {"v_scale[1, 1] = 0"});
  check_positive(Tensor<float, 2>{}, "absent");
  plane.set_size(0, 0);
  check_positive(Tensor<float, 2>::from(*plane, "v"), "v_scale");
}

TEST(CheckScaleRule, KnowsTwo) {
  check_scale_rule(ScaleRule::kPlain);
  check_scale_rule(ScaleRule::kSearch);
  for (const int rule : {2, 77, 255}) {
    expect_invalid([&] { check_scale_rule(static_cast<ScaleRule>(rule)); },
                   {"scale_rule = " + std::to_string(rule), "must be kPlain or kSearch"});
  }
}

}  // namespace
}  // namespace mpfa::internal
