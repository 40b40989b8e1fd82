#include "demo/channel.h"

#include <gtest/gtest.h>

#include <numeric>

#include "../qkv_file.h"
#include "../temp_folder.h"

namespace mpfa::tools {
namespace {

constexpr size_t kTokens = 40;
constexpr size_t kHeadDim = 64;

class ChannelTest : public ::testing::Test {
 protected:
  // K whose values lie within 1 of 0, but for one channel of head 1 that lies around -12.
  ChannelTest() {
    file_.add("k", 2, kTokens, kHeadDim);
    for (size_t i = 0; i < 2 * kTokens * kHeadDim; ++i) {
      file_.set("k", i, 0.1f * static_cast<float>(i * 7 % 19) - 0.9f);
    }
    for (size_t t = 0; t < kTokens; ++t) {
      file_.set("k", (kTokens + t) * kHeadDim + 37, -12.0f + 0.125f * static_cast<float>(t % 5));
    }
  }

  DemoChannel find(int64_t prompt) {
    const LayerFile opened = LayerFile::open(file_.write(folder_.file("f")));
    return strongest_channel(opened.load("", {.k = true}), prompt);
  }

  TempFolder folder_;
  QkvFile file_;
};

TEST_F(ChannelTest, FindsTheChannelFarFromZero) {
  const DemoChannel channel = find(kTokens);
  EXPECT_EQ(channel.kv_head, 1);
  EXPECT_EQ(channel.channel, 37);
  EXPECT_GT(channel.strength, 50.0);
}

TEST_F(ChannelTest, ValuesAreThoseOfThePromptAndCentred) {
  const DemoChannel channel = find(25);
  ASSERT_EQ(channel.before.size(), 25u);
  ASSERT_EQ(channel.after.size(), 25u);
  EXPECT_EQ(channel.before[4], -11.5f);
  EXPECT_NEAR(std::accumulate(channel.after.begin(), channel.after.end(), 0.0), 0.0, 1e-4);
  EXPECT_NEAR(channel.before[3] - channel.after[3], -11.75f, 1e-5);
}

// 12 / 6 = 2 is the scale of blocks with the channel; without its mean nothing exceeds 1.
TEST_F(ChannelTest, CentringMakesTheScaleFiner) {
  const DemoChannel channel = find(kTokens);
  EXPECT_NEAR(channel.scale_before, 2.0f, 0.3f);
  EXPECT_LT(channel.scale_after, 0.3f);
}

}  // namespace
}  // namespace mpfa::tools
