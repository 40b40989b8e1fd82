#include "common/layer_stats.h"

#include <gtest/gtest.h>

#include <cmath>

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
  LayerStats calibrated(int64_t rank, const StatsOptions& options = {}) {
    LayerStats stats(4, 2, 64, rank);
    calibrate_layer(layer(), stats.view(), options);
    return stats;
  }
  // The statistics in a file of their own.
  internal::SafetensorsReader stored(const LayerStats& stats, const std::string& name) {
    internal::SafetensorsWriter writer;
    add_stats(writer, name, stats);
    writer.write(folder_.file("s"));
    return internal::SafetensorsReader::open(folder_.file("s"));
  }

  static std::vector<float> values(const OwnedTensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.view().elements()};
  }

  TempFolder folder_;
  QkvFile input_;
  std::vector<LayerFile> file_;
};

TEST_F(LayerStatsTest, AFileGivesBackWhatWasPutIn) {
  const LayerStats stats = calibrated(8);
  const auto reader = stored(stats, "x");
  EXPECT_EQ(stored_residual_rank(reader, "x"), 8);
  EXPECT_EQ(stored_residual_rank(reader, "y"), 0);
  const LayerStats loaded(4, 2, 64, 8);
  load_stats(reader, "x", loaded.view());
  EXPECT_EQ(values(loaded.k_mean), values(stats.k_mean));
  EXPECT_EQ(values(loaded.q_mean), values(stats.q_mean));
  EXPECT_EQ(values(loaded.residual_basis), values(stats.residual_basis));
  EXPECT_EQ(values(loaded.residual_scale), values(stats.residual_scale));
}

// Row 0 of a cache with two rows: row 1 stays neutral, and what the cache lacks is not missed.
TEST_F(LayerStatsTest, ACachesRowIsFilledInPlace) {
  const LayerStats stats = calibrated(8);
  const auto reader = stored(stats, "");
  const KvCache cache({.num_pages = 1,
                       .num_q_heads = 4,
                       .num_kv_heads = 2,
                       .head_dim = 64,
                       .residual_rank = 8,
                       .num_stats = 2});
  const auto expect_filled = [&](float factor) {
    const float* mean = data_as<float>(*cache.view().stats.k_mean);
    const float* basis = data_as<float>(*cache.view().stats.residual_basis);
    for (int64_t i = 0; i < 2 * 64; ++i) {
      EXPECT_EQ(mean[i], factor * stats.k_mean.data<float>()[i]);
      EXPECT_EQ(mean[2 * 64 + i], 0.0f);
    }
    for (int64_t i = 0; factor == 1.0f && i < 2 * 8 * 64; ++i) {
      EXPECT_EQ(basis[i], stats.residual_basis.data<float>()[i]);
    }
  };
  EXPECT_EQ(cache.view().stats.q_mean, nullptr);
  expect_filled(0.0f);
  calibrate_layer(layer(), cache.view().stats);
  expect_filled(1.0f);
  const KvCache other(cache.config());
  load_stats(reader, "", other.view().stats);
  EXPECT_EQ(data_as<float>(*other.view().stats.k_mean)[70], stats.k_mean.data<float>()[70]);
  EXPECT_EQ(data_as<float>(*other.view().stats.residual_scale)[9],
            stats.residual_scale.data<float>()[9]);
}

TEST_F(LayerStatsTest, FewerRowsAreTheFirstOfEachHead) {
  const LayerStats stats = calibrated(8);
  const auto reader = stored(stats, "");
  const LayerStats loaded(4, 2, 64, 4);
  load_stats(reader, "", loaded.view());
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
  const LayerStats all = calibrated(4);
  const LayerStats means = calibrated(4, {.mean_tokens = 30});
  const LayerStats basis = calibrated(4, {.mean_tokens = 30, .basis_queries = 10});
  EXPECT_NE(values(all.k_mean), values(means.k_mean));
  EXPECT_EQ(values(means.k_mean), values(basis.k_mean));
  EXPECT_EQ(values(means.q_mean), values(basis.q_mean));
  EXPECT_NE(values(means.residual_basis), values(basis.residual_basis));
  double sum = 0.0;
  for (size_t t = 0; t < 30; ++t) sum += input_.value("x.q", (2 * 40 + t) * 64 + 3);
  EXPECT_NEAR(basis.q_mean.data<float>()[2 * 64 + 3], sum / 30, 1e-5);
}

// The queries of the file have means of about twice their spread: the first direction of raw
// queries is near the means', that of centred ones is not.
TEST_F(LayerStatsTest, WithDeltaSTheBasisIsOfCentredQueries) {
  const auto share_of_mean = [](const LayerStats& stats, int64_t kv_head) {
    double dot[2] = {};
    double squares[2] = {};
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 64; ++i) {
        const double mean = stats.q_mean.data<float>()[(2 * kv_head + h) * 64 + i];
        dot[h] += mean * stats.residual_basis.data<float>()[kv_head * 4 * 64 + i];
        squares[h] += mean * mean;
      }
    }
    return std::hypot(dot[0], dot[1]) / std::sqrt(squares[0] + squares[1]);
  };
  const LayerStats raw = calibrated(4);
  const LayerStats centred = calibrated(4, {.delta_s = true});
  EXPECT_EQ(values(raw.k_mean), values(centred.k_mean));
  EXPECT_EQ(values(raw.q_mean), values(centred.q_mean));
  for (int64_t head = 0; head < 2; ++head) {
    EXPECT_GT(share_of_mean(raw, head), 0.5);
    EXPECT_LT(share_of_mean(centred, head), 0.3);
  }
}

TEST_F(LayerStatsTest, WhatDoesNotFitIsAnError) {
  const auto reader = stored(calibrated(4), "");
  load_stats(reader, "", LayerStats(4, 2, 64, 4).view());
  EXPECT_THROW(load_stats(reader, "", LayerStats(4, 1, 64, 0).view()), IoError);
  EXPECT_THROW(load_stats(reader, "", LayerStats(4, 2, 128, 0).view()), IoError);
  EXPECT_THROW(load_stats(reader, "", LayerStats(4, 2, 64, 8).view()), IoError);
  EXPECT_THROW(load_stats(reader, "", LayerStats(2, 2, 64, 0).view()), IoError);
  EXPECT_THROW(load_stats(reader, "other", LayerStats(4, 2, 64, 4).view()), IoError);
}

}  // namespace
}  // namespace mpfa::tools
