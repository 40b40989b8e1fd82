#include "core/block_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/core/expect_invalid.h"
#include "unit/core/test_cache.h"

namespace mpfa::internal {
namespace {

using core_test::expect_invalid;
using core_test::kInt32;
using core_test::TestCache;
using core_test::TestTensor;

// Pages of 16 tokens; three in the cache.
class BlockTableTest : public ::testing::Test {
 protected:
  void check(const std::vector<int32_t>& lengths) {
    seq_lens_.fill(lengths);
    check_block_table(check_cache(cache_.view),
                      Tensor<int32_t, 2>::from(*table_, "block_table", false),
                      Tensor<int32_t, 1>::from(*seq_lens_, "seq_lens"));
  }

  TestCache cache_;
  TestTensor table_{kInt32, {2, 2}};
  TestTensor seq_lens_{kInt32, {2}};
};

TEST_F(BlockTableTest, OnlyUsedEntriesAreRead) {
  table_.fill<int32_t>({2, -9, 0, 99});
  check({16, 1});
  check({0, 16});
  expect_invalid([&] { check({17, 1}); }, {"block_table[0, 1] = -9", "must be 0 to 2"});
  expect_invalid([&] { check({1, 32}); }, {"block_table[1, 1] = 99", "must be 0 to 2"});
}

TEST_F(BlockTableTest, LengthsFitTheTable) {
  table_.fill<int32_t>({0, 1, 2, 0});
  check({32, 32});
  expect_invalid(
      [&] {
        check({32, 33});
      },
      {"seq_lens[1] = 33", "must be 0 to 2 pages of 16 tokens", "block_table"});
  expect_invalid([&] { check({-1, 0}); }, {"seq_lens[0] = -1", "must be 0 to 2 pages"});
  expect_invalid([&] { check({INT32_MAX, 0}); }, {"seq_lens[0] = 2147483647"});
}

// A broadcast table can be wider than 2^63 tokens.
TEST_F(BlockTableTest, HugeWidthsDoNotOverflow) {
  table_.fill<int32_t>({1, 1, 1, 1});
  table_.set_size(1, int64_t{1} << 61);
  table_.set_strides({1, 0});
  check({40, 1000});
  table_.data<int32_t>()[1] = 3;
  expect_invalid([&] { check({40, 1000}); }, {"block_table[1, 0] = 3"});
}

}  // namespace
}  // namespace mpfa::internal
