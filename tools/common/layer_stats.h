// Frozen statistics of one layer: computed from sample activations, or kept in a file.
#pragma once

#include <cstdint>
#include <string>

#include "common/layer_file.h"
#include "common/tensor_view.h"
#include "io/safetensors.h"
#include "mpfa/cache.h"
#include "mpfa/formats.h"

namespace mpfa::tools {

// One row of statistics, with the shapes that docs/spec.md, section 4 gives them. All FP32.
struct LayerStats {
  OwnedTensor k_mean;          // [1, Hkv, d]
  OwnedTensor q_mean;          // [1, Hq, d]
  OwnedTensor residual_basis;  // [1, Hkv, r, d], absent for r = 0
  OwnedTensor residual_scale;  // [1, Hkv, r], absent for r = 0

  int64_t residual_rank() const;
};

struct StatsRows {
  int64_t mean_tokens = -1;    // the first rows of q and k, which give the means; -1: all
  int64_t basis_queries = -1;  // the first rows of q, which give U; -1: mean_tokens
};

// Calibrates from a layer's q and k. Rank 0 leaves out the residual. Throws Error naming the layer.
LayerStats calibrate_layer(const Layer& layer, int64_t residual_rank, ScaleRule scale_rule,
                           StatsRows rows = {});

// Adds the statistics to a file as <layer>.k_mean, <layer>.q_mean, ... `stats` must outlive it.
void add_stats(internal::SafetensorsWriter& writer, const std::string& layer,
               const LayerStats& stats);

// What a cache for one layer needs of its statistics.
struct StatsShape {
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t residual_rank = 0;  // of the cache; the file may hold more, the first ones are taken
  bool q_mean = false;
  int64_t num_q_heads = 0;  // with q_mean
};

// Residual rank of a layer in a file of statistics; 0 if it has none.
int64_t stored_residual_rank(const internal::SafetensorsReader& reader, const std::string& layer);

// Reads a layer's statistics. Throws IoError naming file, tensor, shape and what was expected.
LayerStats load_stats(const internal::SafetensorsReader& reader, const std::string& layer,
                      const StatsShape& shape);

// Copies the statistics into row 0 of a cache of the same shapes.
void set_stats(const LayerStats& stats, const KvCache& cache);

}  // namespace mpfa::tools
