#include "common/layer_stats.h"

#include <gtest/gtest.h>

#include "../qkv_file.h"
#include "../temp_folder.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

class LayerStatsTest : public ::testing::Test {
 protected:
  LayerStatsTest() {
    input_.add_layer("x", 4, 2, 40, 64).write(folder_.file("in"));
    file_.emplace_back(LayerFile::open(folder_.file("in")));
  }
  Layer layer() { return file_[0].load("x", {.q = true, .k = true}); }

  static std::vector<float> values(const OwnedTensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.view().elements()};
  }

  TempFolder folder_;
  QkvFile input_;
  std::vector<LayerFile> file_;
};

TEST_F(LayerStatsTest, AFileGivesBackWhatWasPutIn) {
  const LayerStats stats = calibrate_layer(layer(), 8, ScaleRule::kSearch);
  internal::SafetensorsWriter writer;
  add_stats(writer, "x", stats);
  writer.write(folder_.file("s"));
  const auto reader = internal::SafetensorsReader::open(folder_.file("s"));
  EXPECT_EQ(stored_residual_rank(reader, "x"), 8);
  EXPECT_EQ(stored_residual_rank(reader, "y"), 0);
  const StatsShape shape = {
      .num_kv_heads = 2, .head_dim = 64, .residual_rank = 8, .q_mean = true, .num_q_heads = 4};
  const LayerStats loaded = load_stats(reader, "x", shape);
  EXPECT_EQ(values(loaded.k_mean), values(stats.k_mean));
  EXPECT_EQ(values(loaded.q_mean), values(stats.q_mean));
  EXPECT_EQ(values(loaded.residual_basis), values(stats.residual_basis));
  EXPECT_EQ(values(loaded.residual_scale), values(stats.residual_scale));
}

TEST_F(LayerStatsTest, FewerRowsAreTheFirstOfEachHead) {
  const LayerStats stats = calibrate_layer(layer(), 8, ScaleRule::kSearch);
  internal::SafetensorsWriter writer;
  add_stats(writer, "", stats);
  writer.write(folder_.file("s"));
  const auto reader = internal::SafetensorsReader::open(folder_.file("s"));
  const LayerStats loaded =
      load_stats(reader, "", {.num_kv_heads = 2, .head_dim = 64, .residual_rank = 4});
  EXPECT_FALSE(loaded.q_mean);
  EXPECT_EQ(loaded.residual_rank(), 4);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t row = 0; row < 4; ++row) {
      EXPECT_EQ(loaded.residual_scale.data<float>()[head * 4 + row],
                stats.residual_scale.data<float>()[head * 8 + row]);
      EXPECT_EQ(loaded.residual_basis.data<float>()[(head * 4 + row) * 64 + 9],
                stats.residual_basis.data<float>()[(head * 8 + row) * 64 + 9]);
    }
  }
}

TEST_F(LayerStatsTest, RowsChooseWhatTheStatisticsSee) {
  const LayerStats all = calibrate_layer(layer(), 4, ScaleRule::kSearch);
  const LayerStats means = calibrate_layer(layer(), 4, ScaleRule::kSearch, {.mean_tokens = 30});
  const LayerStats basis =
      calibrate_layer(layer(), 4, ScaleRule::kSearch, {.mean_tokens = 30, .basis_queries = 10});
  EXPECT_NE(values(all.k_mean), values(means.k_mean));
  EXPECT_EQ(values(means.k_mean), values(basis.k_mean));
  EXPECT_EQ(values(means.q_mean), values(basis.q_mean));
  EXPECT_NE(values(means.residual_basis), values(basis.residual_basis));
  double sum = 0.0;
  for (size_t t = 0; t < 30; ++t) sum += input_.value("x.q", (2 * 40 + t) * 64 + 3);
  EXPECT_NEAR(basis.q_mean.data<float>()[2 * 64 + 3], sum / 30, 1e-5);
}

TEST_F(LayerStatsTest, WhatDoesNotFitIsAnError) {
  const LayerStats stats = calibrate_layer(layer(), 4, ScaleRule::kSearch);
  internal::SafetensorsWriter writer;
  add_stats(writer, "", stats);
  writer.write(folder_.file("s"));
  const auto reader = internal::SafetensorsReader::open(folder_.file("s"));
  const StatsShape good = {.num_kv_heads = 2, .head_dim = 64, .residual_rank = 4};
  load_stats(reader, "", good);
  for (StatsShape bad : {StatsShape{.num_kv_heads = 1, .head_dim = 64},
                         StatsShape{.num_kv_heads = 2, .head_dim = 128},
                         StatsShape{.num_kv_heads = 2, .head_dim = 64, .residual_rank = 8},
                         StatsShape{.num_kv_heads = 2,
                         .head_dim = 64,
                         .residual_rank = 0,
                         .q_mean = true,
                         .num_q_heads = 2}}) {
    EXPECT_THROW(load_stats(reader, "", bad), IoError);
  }
  EXPECT_THROW(load_stats(reader, "other", good), IoError);
}

}  // namespace
}  // namespace mpfa::tools
