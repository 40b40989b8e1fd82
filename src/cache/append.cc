// append_kv: the tensors' device picks the back end. On the CPU: checks, then one parallel pass
// over tokens and KV heads.
#include "cuda/append.h"

#include <algorithm>
#include <array>

#include "cache/append_check.h"
#include "core/parallel.h"
#include "cpu/append_simd.h"

namespace mpfa {
namespace internal {
namespace {

AppendConfig config_of(const CacheTensors& cache, ScaleRule rule) {
  AppendConfig config;
  config.head_dim = cache.head_dim;
  config.residual_rank = cache.residual_rank;
  config.group_size = cache.delta_s ? static_cast<int>(cache.num_q_heads / cache.num_kv_heads) : 0;
  config.scale_rule = rule;
  return config;
}

AppendStats stats_of(const CacheTensors& cache, const AppendConfig& config, int64_t stats_row,
                     int64_t head) {
  const StatsTensors& tensors = cache.stats;
  AppendStats stats;
  stats.k_mean = tensors.k_mean.at(stats_row, head);
  stats.k_scale = cache.k_scale(stats_row, head);
  stats.v_scale = cache.v_scale(stats_row, head);
  if (config.group_size > 0) {
    stats.q_mean = tensors.q_mean.at(stats_row, head * config.group_size);
    stats.q_mean_stride = tensors.q_mean.stride(1);
  }
  if (config.residual_rank > 0) {
    stats.residual_basis = tensors.residual_basis.at(stats_row, head);
    stats.residual_basis_stride = tensors.residual_basis.stride(2);
    stats.residual_scale = tensors.residual_scale.at(stats_row, head);
  }
  return stats;
}

AppendTargets targets_of(const CacheTensors& cache, const AppendConfig& config, int64_t slot,
                         int64_t head) {
  const int64_t page = slot / cache.page_size;
  const int64_t offset = slot % cache.page_size;
  AppendTargets out;
  out.k_codes = cache.k_codes.at(page, head, offset);
  out.k_scales = cache.k_scales.at(page, head, offset);
  out.v = cache.v.at(page, head, offset);
  if (cache.delta_s) {
    out.delta_s = cache.delta_s.at(page, head * config.group_size, offset);
    out.delta_s_stride = cache.delta_s.stride(1);
  }
  if (cache.k_residual) out.k_residual = cache.k_residual.at(page, head, offset);
  if (cache.k_first && offset == 0) out.k_first = cache.k_first.at(page, head);
  return out;
}

// The rows of a range of tokens. KV heads outermost: tokens of one page and head lie side by side
// in the cache, and a head's statistics stay in the L1 cache.
void append_tokens(const AppendArgs& args, const AppendConfig& config, int64_t begin, int64_t end) {
  std::array<AppendRow, 64> rows;
  size_t count = 0;
  for (int64_t head = 0; head < args.cache.num_kv_heads; ++head) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t slot = *args.slots.at(token);
      if (slot < 0) continue;
      rows[count++] = {args.k.row(token, head), args.v.row(token, head),
                       stats_of(args.cache, config, args.stats_row(token), head),
                       targets_of(args.cache, config, slot, head)};
      if (count == rows.size()) {
        append_rows(config, args.type, rows);
        count = 0;
      }
    }
  }
  append_rows(config, args.type, std::span(rows).first(count));
}

// Tokens that one task takes: enough work to pay for handing it to a thread, and enough tokens of
// one head to fill pages and caches. A decode step of a few tokens stays on the caller's thread.
int64_t tokens_per_task(const CacheTensors& cache) {
  constexpr int64_t kRowsPerTask = 128;
  return std::max<int64_t>(kRowsPerTask / cache.num_kv_heads, 16);
}

void append_all(const AppendArgs& args, ScaleRule rule) {
  const AppendConfig config = config_of(args.cache, rule);
  parallel_for_ranges(args.num_tokens, tokens_per_task(args.cache),
                      [&](int64_t begin, int64_t end) { append_tokens(args, config, begin, end); });
}

}  // namespace
}  // namespace internal

void append_kv(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
               const DLTensor& slot_mapping, const AppendParams& params, cudaStream_t stream) {
  if (k.device.device_type == kDLCUDA) {
    internal::cuda_append_kv(cache, k, v, slot_mapping, params, stream);
    return;
  }
  const internal::AppendArgs args = internal::check_append(cache, k, v, slot_mapping, params);
  internal::append_all(args, params.scale_rule);
}

}  // namespace mpfa
