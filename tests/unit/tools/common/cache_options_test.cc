#include "common/cache_options.h"

#include <gtest/gtest.h>

#include "../qkv_file.h"
#include "../temp_folder.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

class CacheOptionsTest : public ::testing::Test {
 protected:
  // Parses a command line of these options only.
  static CacheOptions parse(const std::string& line) {
    CLI::App app;
    CacheOptions options;
    add_cache_options(app, options);
    app.parse(line);
    return options;
  }
  Layer layer() {
    if (files_.empty()) {
      files_.emplace_back(
          LayerFile::open(QkvFile().add_layer("", 4, 2, 40, 64).write(folder_.file("in"))));
    }
    return files_[0].load("", {.q = true, .k = true, .v = true});
  }

  TempFolder folder_;
  std::vector<LayerFile> files_;
};

TEST_F(CacheOptionsTest, DefaultsAreTheLibrarys) {
  const SequenceCache cache = make_cache(layer(), parse(""));
  const KvCacheConfig& config = cache.cache().config();
  const KvCacheConfig defaults;
  EXPECT_EQ(config.page_size, defaults.page_size);
  EXPECT_EQ(config.residual_rank, defaults.residual_rank);
  EXPECT_EQ(config.first_key, defaults.first_key);
  EXPECT_EQ(config.delta_s, defaults.delta_s);
  EXPECT_EQ(cache.length(), 40);
}

TEST_F(CacheOptionsTest, EveryOptionReachesTheCache) {
  const SequenceCache cache = make_cache(
      layer(), parse("--page-size 16 --residual-rank 4 --no-first-key --delta-s --tokens 17"));
  const KvCacheConfig& config = cache.cache().config();
  EXPECT_EQ(config.page_size, 16);
  EXPECT_EQ(config.num_pages, 2);
  EXPECT_EQ(config.residual_rank, 4);
  EXPECT_FALSE(config.first_key);
  EXPECT_TRUE(config.delta_s);
  EXPECT_EQ(cache.length(), 17);
}

TEST_F(CacheOptionsTest, NeedsOfTheLayer) {
  EXPECT_TRUE(cache_needs(parse("")).q);
  EXPECT_FALSE(cache_needs(parse("--stats s")).q);
  EXPECT_TRUE(cache_needs(parse("--stats s --delta-s")).q);
}

TEST_F(CacheOptionsTest, FirstTokensCutsAllThree) {
  const Layer cut = first_tokens(layer(), 12);
  EXPECT_EQ(cut.q.size(0), 12);
  EXPECT_EQ(cut.k.size(0), 12);
  EXPECT_EQ(cut.v.size(0), 12);
  EXPECT_EQ(first_tokens(layer(), -1).k.size(0), 40);
  EXPECT_THROW(first_tokens(layer(), 41), IoError);
}

TEST_F(CacheOptionsTest, ScaleRuleNames) {
  EXPECT_EQ(scale_rule_from_name("search"), ScaleRule::kSearch);
  EXPECT_EQ(scale_rule_from_name("plain"), ScaleRule::kPlain);
  EXPECT_THROW(parse("--scale-rule other"), CLI::ParseError);
}

}  // namespace
}  // namespace mpfa::tools
