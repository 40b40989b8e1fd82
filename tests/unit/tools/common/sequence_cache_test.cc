#include "common/sequence_cache.h"

#include <gtest/gtest.h>

#include "../qkv_file.h"
#include "../temp_folder.h"
#include "common/layer_file.h"
#include "common/layer_stats.h"
#include "common/sequence_attention.h"
#include "core/tensor.h"

namespace mpfa::tools {
namespace {

class SequenceCacheTest : public ::testing::Test {
 protected:
  SequenceCacheTest()
      : file_(LayerFile::open(QkvFile().add_layer("", 4, 2, 40, 64).write(folder_.file("in")))),
        layer_(file_.load("", {.q = true, .k = true, .v = true})) {}

  SequenceCache make() const {
    SequenceCacheConfig config;
    config.capacity = 40;
    config.page_size = 16;
    config.num_q_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 64;
    SequenceCache cache(config);
    calibrate_layer(layer_, cache.cache().view().stats);
    return cache;
  }
  static std::string bytes(const DLTensor* tensor) {
    const auto* data = reinterpret_cast<const char*>(internal::data_of(*tensor));
    return {data, static_cast<size_t>(TensorView(*tensor).elements()) * tensor->dtype.bits / 8};
  }
  // Output of all queries, row by row.
  std::vector<Bf16> attend(const SequenceCache& cache) const {
    const SequenceAttention attention(cache.cache(),
                                      {.num_q_heads = 4, .max_rows = 40, .max_keys = 40});
    const OwnedTensor out("out", internal::kBf16Type, {40, 4, 64});
    attention.run(out.dl(), nullptr, layer_.q);
    return {out.data<Bf16>(), out.data<Bf16>() + 40 * 4 * 64};
  }

  TempFolder folder_;
  LayerFile file_;
  Layer layer_;
};

TEST_F(SequenceCacheTest, PiecesGiveTheSameCacheAsTheWhole) {
  SequenceCache whole = make();
  whole.append(layer_.k, layer_.v);
  SequenceCache pieces = make();
  for (const auto& [begin, end] : {std::pair{0, 7}, {7, 8}, {8, 33}, {33, 40}}) {
    pieces.append(layer_.k.slice(0, begin, end), layer_.v.slice(0, begin, end));
    EXPECT_EQ(pieces.length(), end);
    EXPECT_EQ(sequence_length(pieces.cache()), end);
  }
  EXPECT_EQ(bytes(whole.cache().view().k_codes), bytes(pieces.cache().view().k_codes));
  EXPECT_EQ(bytes(whole.cache().view().k_first), bytes(pieces.cache().view().k_first));
  EXPECT_EQ(attend(whole), attend(pieces));
}

TEST_F(SequenceCacheTest, ClearedItIsLikeNew) {
  SequenceCache cache = make();
  cache.append(layer_.v, layer_.k);  // something else
  cache.clear();
  EXPECT_EQ(sequence_length(cache.cache()), 0);
  cache.append(layer_.k, layer_.v);
  SequenceCache fresh = make();
  fresh.append(layer_.k, layer_.v);
  EXPECT_EQ(attend(cache), attend(fresh));
}

TEST_F(SequenceCacheTest, MoreThanItsCapacityIsAnError) {
  SequenceCache cache = make();
  cache.append(layer_.k, layer_.v);
  EXPECT_THROW(cache.append(layer_.k.slice(0, 0, 1), layer_.v.slice(0, 0, 1)), InvalidArgument);
  EXPECT_EQ(cache.length(), 40);
}

}  // namespace
}  // namespace mpfa::tools
