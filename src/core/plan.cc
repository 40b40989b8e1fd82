#include "core/plan.h"

#include <algorithm>
#include <string_view>

#include "core/shapes.h"
#include "core/tensor.h"
#include "cuda/plan.h"

namespace mpfa {
namespace {

// 4096 tokens of d = 128 are 800 KB of cache: about a core's second-level cache, and long enough
// that preparing Q and merging cost under 1%.
constexpr int64_t kDefaultSplitSize = 4096;
constexpr int64_t kSplitGranularity = 128;  // a multiple of a GPU kernel's tiles, too

// `prefix` is put before the names: "plan.params." where the parameters come from a plan.
void check_plan_params(const PlanParams& p, std::string_view prefix = "") {
  const DLDeviceType device = p.device.device_type;
  MPFA_CHECK(device == kDLCPU || device == kDLCUDAHost || device == kDLCUDA, prefix,
             "device.device_type = ", static_cast<int>(device),
             ": must be 1 (CPU) or 2 (CUDA), DLPack's numbers");
  MPFA_CHECK(p.batch_size >= 0, prefix, "batch_size = ", p.batch_size, ": must not be negative");
  MPFA_CHECK(p.num_kv_heads >= 1, prefix, "num_kv_heads = ", p.num_kv_heads,
             ": must be at least 1");
  MPFA_CHECK(p.num_q_heads >= 1 && p.num_q_heads % p.num_kv_heads == 0, prefix,
             "num_q_heads = ", p.num_q_heads,
             ": must be a multiple of num_kv_heads = ", p.num_kv_heads);
  MPFA_CHECK(internal::is_head_dim(p.head_dim), prefix, "head_dim = ", p.head_dim, ": must be ",
             internal::alternatives(internal::kHeadDims));
  MPFA_CHECK(p.total_seqlen_q >= 0, prefix, "total_seqlen_q = ", p.total_seqlen_q,
             ": must not be negative");
  MPFA_CHECK(p.max_seqlen_q >= 0, prefix, "max_seqlen_q = ", p.max_seqlen_q,
             ": must not be negative (0: total_seqlen_q)");
  MPFA_CHECK(p.max_seqlen_k >= 0 && p.max_seqlen_k <= INT32_MAX, prefix,
             "max_seqlen_k = ", p.max_seqlen_k, ": must be 0 to ", INT32_MAX,
             " (lengths are int32)");
  MPFA_CHECK(p.kv_split_size >= 0 && p.kv_split_size % kSplitGranularity == 0, prefix,
             "kv_split_size = ", p.kv_split_size, ": must be 0 (chosen by plan) or a multiple of ",
             kSplitGranularity);
  const int precision = static_cast<int>(p.prefill_precision);
  MPFA_CHECK(precision >= 0 && precision <= static_cast<int>(PrefillPrecision::kFp8Fp16Scores),
             prefix, "prefill_precision = ", precision,
             ": must be 0 (kAuto), 1 (kFp16), 2 (kFp8) or 3 (kFp8Fp16Scores)");
}

// Rows of q that may belong to split sequences.
int64_t split_rows(const PlanParams& p) {
  // Compared first, as batch_size times the rows of one may overflow.
  if (p.batch_size >= internal::ceil_div(p.total_seqlen_q, internal::kMaxSplitSeqlenQ)) {
    return p.total_seqlen_q;
  }
  return p.batch_size * internal::kMaxSplitSeqlenQ;
}

int64_t workspace_bytes(const PlanParams& p, int64_t num_splits) {
  int64_t bytes =
      static_cast<int64_t>(sizeof(float)) * (p.head_dim + internal::kPartialStateFloats);
  bool fits = true;
  for (const int64_t factor : {num_splits, split_rows(p), p.num_q_heads}) {
    fits = fits && !__builtin_mul_overflow(bytes, factor, &bytes);
  }
  MPFA_CHECK(fits, "workspace_bytes would exceed 2^63 - 1: total_seqlen_q = ", p.total_seqlen_q,
             ", batch_size = ", p.batch_size, ", num_q_heads = ", p.num_q_heads,
             " and max_seqlen_k = ", p.max_seqlen_k,
             " must be smaller, or kv_split_size = ", p.kv_split_size, " larger");
  return bytes;
}

Plan make_plan(const PlanParams& params) {
  if (params.device.device_type == kDLCUDA) return internal::cuda_plan(params);
  Plan result;
  result.params = params;
  if (params.kv_split_size == 0) result.params.kv_split_size = kDefaultSplitSize;
  result.max_num_splits =
      std::max<int64_t>(1, internal::ceil_div(params.max_seqlen_k, result.params.kv_split_size));
  if (result.max_num_splits > 1) {
    result.workspace_bytes = workspace_bytes(result.params, result.max_num_splits);
  }
  return result;
}

}  // namespace

Plan plan(const PlanParams& params) {
  check_plan_params(params);
  return make_plan(params);
}

void internal::check_plan(const Plan& given) {
  check_plan_params(given.params, "plan.params.");
  const Plan made = make_plan(given.params);
  const auto check_same = [](std::string_view name, int64_t value, int64_t expected) {
    MPFA_CHECK(value == expected, "plan.", name, " = ", value, ": plan() gives ", expected,
               " for these params; make the plan with plan()");
  };
  check_same("params.kv_split_size", given.params.kv_split_size, made.params.kv_split_size);
  check_same("max_num_splits", given.max_num_splits, made.max_num_splits);
  check_same("workspace_bytes", given.workspace_bytes, made.workspace_bytes);
}

}  // namespace mpfa
