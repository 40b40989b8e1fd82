#include "core/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace mpfa::internal {
namespace {

TEST(Parallel, RangesCoverEveryIndexOnce) {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<int> visits(static_cast<size_t>(count));
      parallel_for_ranges(count, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LE(end - begin, grain);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(Parallel, ForVisitsEveryIndexOnce) {
  std::vector<int> visits(333);
  parallel_for(333, [&](int64_t i) { ++visits[static_cast<size_t>(i)]; });
  EXPECT_EQ(visits, std::vector<int>(333, 1));
  parallel_for(0, [](int64_t) { FAIL(); });
}

// Joining strings is associative but not commutative: the order of the parts shows.
TEST(Parallel, ReduceJoinsInOrder) {
  const auto digits = [](int64_t begin, int64_t end) {
    std::string text;
    for (int64_t i = begin; i < end; ++i) text += static_cast<char>('a' + i % 26);
    return text;
  };
  const auto join = [](const std::string& a, const std::string& b) { return a + b; };
  for (const int64_t grain : {1, 7, 100}) {
    EXPECT_EQ(parallel_reduce(int64_t{60}, grain, std::string(), digits, join), digits(0, 60));
  }
  EXPECT_EQ(parallel_reduce(int64_t{0}, int64_t{4}, std::string("empty"), digits, join), "empty");
}

TEST(Parallel, ExceptionsReachTheCaller) {
  EXPECT_THROW(parallel_for(100,
                            [](int64_t i) {
                              if (i == 50) throw std::runtime_error("50");
                            }),
               std::runtime_error);
}

}  // namespace
}  // namespace mpfa::internal
