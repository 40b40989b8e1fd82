#include "core/shapes.h"

#include <gtest/gtest.h>

#include <set>

#include "core/ceil_div.h"

namespace mpfa::internal {
namespace {

TEST(Shapes, ListsAreTheDocumentedOnes) {
  const std::set<int64_t> head_dims = {64, 128};
  const std::set<int64_t> page_sizes = {16, 32, 64, 128};
  const std::set<int64_t> ranks = {4, 8, 16};
  for (int64_t n = -130; n < 300; ++n) {
    EXPECT_EQ(is_head_dim(n), head_dims.contains(n)) << n;
    EXPECT_EQ(is_page_size(n), page_sizes.contains(n)) << n;
    EXPECT_EQ(is_residual_rank(n), ranks.contains(n)) << n;
  }
  EXPECT_EQ(kHeadDims.back(), 128);
  EXPECT_EQ(kResidualRanks.back(), 16);
  EXPECT_FALSE(is_head_dim((int64_t{1} << 32) + 64));
}

TEST(Shapes, AlternativesReadAsASentence) {
  EXPECT_EQ(alternatives(kHeadDims), "64 or 128");
  EXPECT_EQ(alternatives(kPageSizes), "16, 32, 64 or 128");
  const int64_t one[] = {7};
  EXPECT_EQ(alternatives(one), "7");
  EXPECT_EQ(alternatives({}), "");
}

TEST(CeilDiv, RoundsUpWithoutOverflow) {
  static_assert(ceil_div(0, 5) == 0 && ceil_div(1, 5) == 1 && ceil_div(5, 5) == 1);
  static_assert(ceil_div(6, 5) == 2 && ceil_div(3, 1) == 3);
  static_assert(ceil_div(1, INT64_MAX) == 1 && ceil_div(INT64_MAX, INT64_MAX) == 1);
  static_assert(ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
}

}  // namespace
}  // namespace mpfa::internal
