#include "cuda/decode_plan.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "cuda/device.h"
#include "cuda/plan.h"
#include "cuda/sm90_prefill.h"
#include "kernels/any/decode/schedule.h"
#include "kernels/any/prefill/prefill.h"

namespace mpfa::internal {
namespace {

// Tokens of a part where parts have a fixed size: small enough that 8 sequences of 32K fill a GPU,
// large enough that preparing Q and merging do not count for much.
constexpr int64_t kFixedSplitSize = 2048;

void check_size_of(const PlanParams& p) {
  constexpr int64_t kMost = int64_t{1} << 24;
  MPFA_CHECK(p.batch_size <= kMost && p.total_seqlen_q <= kMost && p.num_q_heads <= kMost,
             "batch_size = ", p.batch_size, ", total_seqlen_q = ", p.total_seqlen_q,
             ", num_q_heads = ", p.num_q_heads, ": must be at most 2^24 each on a GPU");
}

}  // namespace

int64_t max_rows(const PlanParams& p) {
  return p.max_seqlen_q > 0 ? std::min(p.max_seqlen_q, p.total_seqlen_q) : p.total_seqlen_q;
}

int64_t max_row_tiles(const PlanParams& p, int64_t rows_per_tile) {
  const int64_t group_size = p.num_q_heads / p.num_kv_heads;
  const int64_t sequences = std::min(p.batch_size, p.total_seqlen_q);
  const int64_t by_total = ceil_div(p.total_seqlen_q * group_size, rows_per_tile) + sequences;
  const int64_t by_longest = sequences * ceil_div(max_rows(p) * group_size, rows_per_tile);
  return std::min(by_total, by_longest);
}

bool is_for_prefill(const PlanParams& params, bool has_delta) {
  constexpr int64_t kMaxDecodeRows = 16;
  if (max_rows(params) <= kMaxDecodeRows) return false;
  // delta_s of a large group may not fit a small GPU's shared memory.
  const auto group_size = static_cast<int>(params.num_q_heads / params.num_kv_heads);
  const kernels::PrefillLaunch launch{static_cast<int>(params.head_dim), has_delta};
  return kernels::prefill_shared_bytes(launch, has_delta, group_size) <=
         device_info(params.device.device_id).shared_bytes;
}

DecodePlan make_decode_plan(const PlanParams& params) {
  check_size_of(params);
  PlanParams p = params;
  // Then only calls with a row for each sequence come here, and need no room for more.
  if (is_for_prefill(params, true)) p.max_seqlen_q = 1;
  const int64_t group_size = p.num_q_heads / p.num_kv_heads;
  DecodePlan plan;
  plan.row_tiles = max_rows(p) * group_size <= 8 ? 1 : 2;
  constexpr int64_t kAllTokens = int64_t{1} << 31;  // of any sequence: lengths are int32
  plan.split_tiles =
      static_cast<int32_t>(std::min(p.kv_split_size, kAllTokens) / kernels::kTileTokens);
  const int rows = 8 * plan.row_tiles;
  const int64_t pairs = p.num_kv_heads * max_row_tiles(p, rows);
  const int64_t parts =
      p.kv_split_size == 0
          ? 0
          : pairs * std::max<int64_t>(1, ceil_div(p.max_seqlen_k, p.kv_split_size) + 1);
  constexpr int64_t kMost = int64_t{1} << 28;
  MPFA_CHECK(pairs <= kMost && parts <= kMost, "the plan has up to ", std::max(pairs, parts),
             " pieces of work: must be at most 2^28; batch_size = ", p.batch_size,
             ", total_seqlen_q = ", p.total_seqlen_q, " and max_seqlen_k = ", p.max_seqlen_k,
             " must be smaller, or kv_split_size = ", p.kv_split_size, " larger");
  plan.layout = kernels::layout_workspace(device_info(p.device.device_id).sm_count, pairs, parts,
                                          rows, static_cast<int>(p.head_dim));
  return plan;
}

Plan cuda_plan(const PlanParams& params) {
  Plan plan;
  plan.params = params;
  if (params.batch_invariant && params.kv_split_size == 0) {
    plan.params.kv_split_size = kFixedSplitSize;
  }
  if (plan.params.kv_split_size > 0) {
    plan.max_num_splits =
        std::max<int64_t>(1, ceil_div(params.max_seqlen_k, plan.params.kv_split_size));
  }
  const DecodePlan decode = make_decode_plan(plan.params);
  plan.workspace_bytes = decode.layout.total_bytes;
  if (is_for_sm90_prefill(plan.params)) {
    plan.workspace_bytes =
        prefill_workspace_begin(decode) + sm90_prefill_workspace_bytes(plan.params);
  }
  return plan;
}

int64_t prefill_workspace_begin(const DecodePlan& plan) {
  constexpr int64_t kAlignment = 1024;
  return ceil_div(plan.layout.total_bytes, kAlignment) * kAlignment;
}

int choose_warps(const kernels::DecodeLaunch& launch, int rank, bool has_delta, int shared_bytes) {
  kernels::DecodeLaunch tried = launch;
  tried.warps = kernels::max_decode_warps(launch.head_dim, launch.row_tiles);
  while (tried.warps > 1 && kernels::decode_shared_bytes(tried, rank, has_delta) > shared_bytes) {
    --tried.warps;
  }
  return tried.warps;
}

}  // namespace mpfa::internal
