#include "common/threads.h"

#include <gtest/gtest.h>

namespace mpfa::tools {
namespace {

TEST(ThreadLimit, HoldsWhileItExists) {
  const int before = active_threads();
  EXPECT_GE(before, 1);
  {
    const ThreadLimit limit(1);
    EXPECT_EQ(active_threads(), 1);
  }
  EXPECT_EQ(active_threads(), before);
}

TEST(ThreadLimit, ZeroIsNoLimit) {
  const int before = active_threads();
  const ThreadLimit limit(0);
  EXPECT_EQ(active_threads(), before);
}

}  // namespace
}  // namespace mpfa::tools
