#include "bench/decode_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/errors.h"

namespace mpfa::tools {
namespace {

DecodeCase small_case() {
  DecodeCase decode;
  decode.shape = {.batch_size = 3, .num_q_heads = 8, .num_kv_heads = 2, .length = 1000};
  decode.options.residual_rank = 0;
  decode.options.first_key = false;
  return decode;
}

TEST(DecodeCase, EqualLengths) {
  EXPECT_EQ(seqlens_k(small_case()), (std::vector<int32_t>{1000, 1000, 1000}));
}

TEST(DecodeCase, UnevenLengths) {
  DecodeCase decode = small_case();
  decode.lengths = Lengths::kUneven;
  EXPECT_EQ(seqlens_k(decode), (std::vector<int32_t>{1000, 7, 7}));
  decode.shape.length = 100;  // 100 / 128 is none
  EXPECT_EQ(seqlens_k(decode), (std::vector<int32_t>{100, 1, 1}));
  decode.seqlen_q = 4;
  EXPECT_EQ(seqlens_k(decode), (std::vector<int32_t>{100, 4, 4}));
}

TEST(DecodeCase, UniformLengthsFillTheirRangeAndRepeat) {
  DecodeCase decode = small_case();
  decode.lengths = Lengths::kUniform;
  decode.shape.batch_size = 400;
  const std::vector<int32_t> lengths = seqlens_k(decode);
  ASSERT_EQ(lengths.size(), 400u);
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  EXPECT_GE(*least, 1);
  EXPECT_LE(*least, 50);
  EXPECT_GE(*most, 950);
  EXPECT_LE(*most, 1000);
  EXPECT_EQ(seqlens_k(decode), lengths);
}

TEST(DecodeCase, NamesOfLengths) {
  for (const Lengths lengths : {Lengths::kEqual, Lengths::kUniform, Lengths::kUneven}) {
    EXPECT_EQ(lengths_from_name(lengths_name(lengths)), lengths);
  }
  EXPECT_THROW(lengths_from_name("long"), UsageError);
}

TEST(DecodeCase, BytesAreThoseOfTokensAndMemoryThatOfPages) {
  DecodeCase decode = small_case();
  decode.lengths = Lengths::kUneven;
  EXPECT_EQ(cache_bytes(decode), 200.0 * 2 * 1014);
  KvCacheConfig config = cache_config(decode);
  EXPECT_EQ(config.num_pages, 16 + 1 + 1);
  EXPECT_EQ(memory_bytes(config), 200.0 * 2 * 18 * 64);
  decode.options.residual_rank = 8;
  decode.options.first_key = true;
  decode.options.page_size = 16;
  EXPECT_EQ(cache_bytes(decode), 208.0 * 2 * 1014);
  config = cache_config(decode);
  EXPECT_EQ(config.num_pages, 63 + 1 + 1);
  EXPECT_EQ(memory_bytes(config), 2 * 65 * (208.0 * 16 + 256));
}

TEST(DecodeCase, DescriptionNamesAllThatDiffers) {
  DecodeCase decode = small_case();
  EXPECT_EQ(describe(decode), "page 64");
  std::set<std::string> texts = {describe(decode)};
  const auto expect_new = [&] { EXPECT_TRUE(texts.insert(describe(decode)).second); };
  decode.options.page_size = 16, expect_new();
  decode.options.residual_rank = 8, expect_new();
  decode.options.first_key = true, expect_new();
  decode.options.delta_s = true, expect_new();
  decode.options.kv_split_size = 1024, expect_new();
  decode.seqlen_q = 4, expect_new();
  decode.lengths = Lengths::kUniform, expect_new();
  decode.lengths = Lengths::kUneven, expect_new();
}

TEST(DecodeCase, SuitesHaveTheirShapes) {
  const std::vector<DecodeCase> goals = decode_suite("goals", "fp16");
  ASSERT_EQ(goals.size(), 30u);
  EXPECT_EQ(goals[0].shape.str(), "1x32:8x128@4096");
  EXPECT_EQ(describe(goals[0]), "page 64");
  EXPECT_EQ(goals[0].options.dtype, "fp16");
  EXPECT_EQ(goals[19].shape.str(), "64x40:8x128@8192");
  EXPECT_EQ(describe(goals[29]), "page 64, residual 8, first key");
  std::set<std::string> wide;
  for (const DecodeCase& decode : decode_suite("wide", "bf16")) {
    EXPECT_TRUE(wide.insert(decode.shape.str() + describe(decode)).second) << describe(decode);
  }
  for (const std::string& name : decode_suites()) EXPECT_FALSE(decode_suite(name, "bf16").empty());
  EXPECT_THROW(decode_suite("all", "bf16"), UsageError);
}

}  // namespace
}  // namespace mpfa::tools
