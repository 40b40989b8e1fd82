#include "common/cache_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "common/common_options.h"
#include "common/errors.h"
#include "common/layer_stats.h"
#include "core/shapes.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kDefaultResidualRank = 8;

SequenceCacheConfig cache_config(const Layer& layer, const CacheOptions& options) {
  SequenceCacheConfig config;
  config.capacity = layer.k.size(0);
  config.page_size = options.page_size;
  config.num_kv_heads = layer.k.size(1);
  config.num_q_heads = layer.q.ndim > 0 ? layer.q.size(1) : 0;
  config.head_dim = layer.k.size(2);
  config.residual_rank = options.residual_rank;
  config.first_key = !options.no_first_key;
  config.delta_s = options.delta_s;
  config.scale_rule = scale_rule_from_name(options.scale_rule);
  return config;
}

}  // namespace

void add_cache_options(CLI::App& command, CacheOptions& options) {
  command.add_option("--layer", options.layer, "The layer to use, where the file has several")
      ->type_name("NAME");
  command
      .add_option("--stats", options.stats,
                  "Statistics of mpfa calibrate; without, they are computed from the input itself")
      ->type_name("FILE");
  add_page_size_option(command, options.page_size);
  add_residual_rank_option(command, options.residual_rank);
  command.add_flag("--no-first-key", options.no_first_key,
                   "Leave out k_first, the first key's remaining error in BF16");
  command.add_flag("--delta-s", options.delta_s, "Add the paper's compensation delta_s");
  add_scale_rule_option(command, options.scale_rule);
  command.add_option("--tokens", options.tokens, "Use the input's first N keys only")
      ->check(whole_number(1, INT32_MAX))
      ->type_name("N");
}

void add_page_size_option(CLI::App& command, int64_t& page_size) {
  command
      .add_option("--page-size", page_size,
                  "Tokens of a page: " + internal::alternatives(internal::kPageSizes))
      ->check(one_of({internal::kPageSizes.begin(), internal::kPageSizes.end()}))
      ->type_name("N")
      ->capture_default_str();
}

void add_residual_rank_option(CLI::App& command, int64_t& rank) {
  std::vector<int64_t> allowed = {0};
  allowed.insert(allowed.end(), internal::kResidualRanks.begin(), internal::kResidualRanks.end());
  command
      .add_option("--residual-rank", rank,
                  fmt::format("Residual values per token and KV head: {} (default {})",
                              internal::alternatives(allowed), kDefaultResidualRank))
      ->check(one_of(allowed))
      ->type_name("R");
}

void add_scale_rule_option(CLI::App& command, std::string& scale_rule) {
  command
      .add_option("--scale-rule", scale_rule,
                  "How the scale of 16 codes is chosen: search (best of six) or plain (amax / 6)")
      ->check(CLI::IsMember({"search", "plain"}))
      ->type_name("RULE")
      ->capture_default_str();
}

void add_kv_split_size_option(CLI::App& command, int64_t& kv_split_size) {
  constexpr int64_t kGranularity = 128;
  command
      .add_option("--kv-split-size", kv_split_size,
                  "Keys that one work item covers, a multiple of 128; 0 chooses")
      ->check(whole_number(0, INT64_MAX, kGranularity))
      ->type_name("N");
}

ScaleRule scale_rule_from_name(const std::string& name) {
  return name == "plain" ? ScaleRule::kPlain : ScaleRule::kSearch;
}

LayerNeeds cache_needs(const CacheOptions& options) {
  return {.q = options.stats.empty() || options.delta_s, .k = true, .v = true};
}

Layer first_tokens(const Layer& layer, int64_t tokens) {
  if (tokens < 0) return layer;
  const int64_t available = layer.k.size(0);
  if (tokens > available) {
    throw IoError(
        fmt::format("{} has {} tokens: fewer than --tokens {}", layer.where, available, tokens));
  }
  Layer result = layer;
  result.k = layer.k.slice(0, 0, tokens);
  if (layer.v.ndim > 0) result.v = layer.v.slice(0, 0, tokens);
  if (layer.q.ndim > 0) result.q = layer.q.slice(0, 0, std::min(tokens, layer.q.size(0)));
  return result;
}

SequenceCache make_cache(const Layer& layer, const CacheOptions& options) {
  check_cache_head_dim(layer);
  const Layer used = first_tokens(layer, options.tokens);
  SequenceCacheConfig config = cache_config(used, options);
  std::optional<internal::SafetensorsReader> stats_file;
  if (!options.stats.empty()) stats_file = internal::SafetensorsReader::open(options.stats);
  if (config.residual_rank < 0) {
    config.residual_rank =
        stats_file ? stored_residual_rank(*stats_file, used.name) : kDefaultResidualRank;
  }
  SequenceCache cache = with_context(used.where, [&] { return SequenceCache(config); });
  const StatsView& stats = cache.cache().view().stats;
  if (stats_file) {
    load_stats(*stats_file, used.name, stats);
  } else {
    calibrate_layer(used, stats, {.scale_rule = config.scale_rule, .delta_s = config.delta_s});
  }
  with_layer(used, [&] { cache.append(used.k, used.v); });
  return cache;
}

}  // namespace mpfa::tools
