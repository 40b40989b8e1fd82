#include "core/plan.h"

#include <algorithm>

#include "core/tensor.h"

namespace mpfa {
namespace {

// 4096 tokens of d = 128 are 800 KB of cache: about a core's second-level cache, and long enough
// that preparing Q and merging cost under 1%.
constexpr int64_t kDefaultSplitSize = 4096;
constexpr int64_t kSplitGranularity = 128;

void check_plan_params(const PlanParams& p) {
  MPFA_CHECK(p.device.device_type == kDLCPU || p.device.device_type == kDLCUDAHost,
             "device.device_type = ", static_cast<int>(p.device.device_type),
             ": this build has the CPU back end only (device type 1)");
  MPFA_CHECK(p.batch_size >= 0, "batch_size = ", p.batch_size, ": must not be negative");
  MPFA_CHECK(p.num_kv_heads >= 1, "num_kv_heads = ", p.num_kv_heads, ": must be at least 1");
  MPFA_CHECK(p.num_q_heads >= 1 && p.num_q_heads % p.num_kv_heads == 0,
             "num_q_heads = ", p.num_q_heads,
             ": must be a multiple of num_kv_heads = ", p.num_kv_heads);
  MPFA_CHECK(p.head_dim == 64 || p.head_dim == 128, "head_dim = ", p.head_dim,
             ": must be 64 or 128");
  MPFA_CHECK(p.total_seqlen_q >= 0, "total_seqlen_q = ", p.total_seqlen_q,
             ": must not be negative");
  MPFA_CHECK(p.max_seqlen_k >= 0 && p.max_seqlen_k <= INT32_MAX, "max_seqlen_k = ", p.max_seqlen_k,
             ": must be 0 to ", INT32_MAX, " (lengths are int32)");
  MPFA_CHECK(p.kv_split_size >= 0 && p.kv_split_size % kSplitGranularity == 0,
             "kv_split_size = ", p.kv_split_size, ": must be 0 (chosen by plan) or a multiple of ",
             kSplitGranularity);
}

}  // namespace

Plan plan(const PlanParams& params) {
  check_plan_params(params);
  Plan result;
  result.params = params;
  if (params.kv_split_size == 0) result.params.kv_split_size = kDefaultSplitSize;
  result.max_num_splits =
      std::max<int64_t>(1, internal::ceil_div(params.max_seqlen_k, result.params.kv_split_size));
  if (result.max_num_splits > 1) {
    const int64_t rows =
        std::min(params.total_seqlen_q, params.batch_size * internal::kMaxSplitSeqlenQ);
    result.workspace_bytes = result.max_num_splits * rows * params.num_q_heads *
                             (params.head_dim + internal::kPartialStateFloats) *
                             static_cast<int64_t>(sizeof(float));
  }
  return result;
}

}  // namespace mpfa
