// Frozen statistics of one layer: computed from sample activations, or kept in a file.
#pragma once

#include <cstdint>
#include <string>

#include "common/layer_file.h"
#include "common/owned_tensor.h"
#include "io/safetensors.h"
#include "mpfa/cache.h"
#include "mpfa/formats.h"

namespace mpfa::tools {

// One row of statistics outside a cache, with the shapes that docs/spec.md, section 4 gives them.
struct LayerStats {
  LayerStats(int64_t num_q_heads, int64_t num_kv_heads, int64_t head_dim, int64_t residual_rank);

  StatsView view() const;

  OwnedTensor k_mean;          // [1, Hkv, d]
  OwnedTensor q_mean;          // [1, Hq, d]
  OwnedTensor residual_basis;  // [1, Hkv, r, d], absent for r = 0
  OwnedTensor residual_scale;  // [1, Hkv, r], absent for r = 0
};

struct StatsOptions {
  ScaleRule scale_rule = ScaleRule::kSearch;
  // For caches with delta_s: U comes from q - q_mean, since delta_s cancels the error along q_mean
  // already. Any U is correct, this one leaves less error.
  bool delta_s = false;
  int64_t mean_tokens = -1;    // the first rows of q and k, which give the means; -1: all
  int64_t basis_queries = -1;  // the first rows of q, which give U; -1: mean_tokens
};

// Calibrates from a layer's q and k into row 0 of `out`, whose shapes say what is wanted; q_mean
// and the residual may be absent. Throws Error naming the layer.
void calibrate_layer(const Layer& layer, const StatsView& out, const StatsOptions& options = {});

// Adds the statistics to a file as <layer>.k_mean, <layer>.q_mean, ... `stats` must outlive it.
void add_stats(internal::SafetensorsWriter& writer, const std::string& layer,
               const LayerStats& stats);

// Residual rank of a layer in a file of statistics; 0 if it has none.
int64_t stored_residual_rank(const internal::SafetensorsReader& reader, const std::string& layer);

// Reads a layer's statistics into row 0 of `out`. The file's residual may have a higher rank; the
// first rows are taken. Throws IoError naming file, tensor, shape and what was expected.
void load_stats(const internal::SafetensorsReader& reader, const std::string& layer,
                const StatsView& out);

}  // namespace mpfa::tools
