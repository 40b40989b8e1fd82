// How K and V are put into a cache: the options that quantize and attend share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "common/layer_file.h"
#include "common/sequence_cache.h"
#include "mpfa/formats.h"

namespace mpfa::tools {

struct CacheOptions {
  std::string layer;
  std::string stats;  // file of mpfa calibrate; empty: calibrate on the input itself
  int64_t page_size = 64;
  int64_t residual_rank = -1;  // -1: 8, or what the file of statistics has
  bool no_first_key = false;
  bool delta_s = false;
  std::string scale_rule = "search";
  int64_t tokens = -1;  // the first ones of the input; -1: all
};

// Adds --layer, --stats, --page-size, --residual-rank, --no-first-key, --delta-s, --scale-rule and
// --tokens.
void add_cache_options(CLI::App& command, CacheOptions& options);

// "search" or "plain".
ScaleRule scale_rule_from_name(const std::string& name);

// The same one by one, for commands that need fewer: --page-size and --residual-rank (the sizes of
// core/shapes.h; a rank of 0 too), --scale-rule; and --kv-split-size, for attention over a cache.
void add_page_size_option(CLI::App& command, int64_t& page_size);
void add_residual_rank_option(CLI::App& command, int64_t& rank);
void add_scale_rule_option(CLI::App& command, std::string& scale_rule);
void add_kv_split_size_option(CLI::App& command, int64_t& kv_split_size);

// Which tensors of a layer make_cache reads. q is needed where the statistics come from the input.
LayerNeeds cache_needs(const CacheOptions& options);

// The layer's first `tokens` rows. Throws IoError if it has fewer.
Layer first_tokens(const Layer& layer, int64_t tokens);

// Quantises a layer into a cache of its own. Throws Error naming file and tensor.
SequenceCache make_cache(const Layer& layer, const CacheOptions& options);

}  // namespace mpfa::tools
