#include "common/head_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

// [2 rows, 2 heads, 2].
HeadErrors errors_of(const std::vector<float>& out, const std::vector<double>& reference) {
  return head_errors(TensorView(out, {2, 2, 2}), reference);
}

TEST(HeadErrors, EachHeadOverAllItsRows) {
  // Head 0: (3, 4) and (0, 0) against (3, 0) and (0, 4). Head 1: exact.
  const HeadErrors errors = errors_of({3, 4, 1, 2, 0, 0, 3, 4}, {3, 0, 1, 2, 0, 4, 3, 4});
  EXPECT_DOUBLE_EQ(errors.relative_l2[0], std::sqrt(32.0 / 25.0));
  EXPECT_DOUBLE_EQ(errors.cosine[0], 9.0 / 25.0);
  EXPECT_DOUBLE_EQ(errors.relative_l2[1], 0.0);
  EXPECT_DOUBLE_EQ(errors.cosine[1], 1.0);
  EXPECT_DOUBLE_EQ(errors.mean_relative_l2(), std::sqrt(32.0 / 25.0) / 2);
  EXPECT_DOUBLE_EQ(errors.mean_cosine(), (9.0 / 25.0 + 1.0) / 2);
}

TEST(HeadErrors, AZeroReference) {
  const HeadErrors errors = errors_of({0, 0, 1, 0, 0, 0, 0, 0}, std::vector<double>(8, 0.0));
  EXPECT_EQ(errors.relative_l2[0], 0.0);
  EXPECT_EQ(errors.cosine[0], 1.0);
  EXPECT_EQ(errors.relative_l2[1], INFINITY);
  EXPECT_EQ(errors.cosine[1], 0.0);
}

TEST(HeadErrors, ReferenceOfAnotherSizeIsAnError) {
  EXPECT_THROW(errors_of(std::vector<float>(8), std::vector<double>(7)), InvalidArgument);
}

}  // namespace
}  // namespace mpfa::tools
