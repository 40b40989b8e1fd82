// Attention and its plan (mpfa/attention.h).
#include "mpfa/attention.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "args.h"
#include "cache_args.h"
#include "export.h"

namespace mpfa::python {
namespace {

// A Plan as Python keeps it; the order of `pack_plan` and `unpack_plan`.
using PackedPlan = Array<int64_t>;
constexpr size_t kPlanSize = 14;

// A number that names none stays one that names none.
PrefillPrecision precision_of(int64_t number) {
  return static_cast<PrefillPrecision>(std::clamp<int64_t>(number, -1, 100));
}

PackedPlan pack_plan(const Plan& plan) {
  const PlanParams& p = plan.params;
  return {p.device.device_type,
          p.device.device_id,
          p.batch_size,
          p.num_q_heads,
          p.num_kv_heads,
          p.head_dim,
          p.total_seqlen_q,
          p.max_seqlen_q,
          p.max_seqlen_k,
          p.kv_split_size,
          static_cast<int64_t>(p.batch_invariant),
          static_cast<int64_t>(p.prefill_precision),
          plan.max_num_splits,
          plan.workspace_bytes};
}

Plan unpack_plan(const PackedPlan& packed) {
  MPFA_CHECK(packed.size() == kPlanSize, "plan has ", packed.size(), " numbers: must have ",
             kPlanSize);
  Plan plan;
  PlanParams& p = plan.params;
  p.device = {static_cast<DLDeviceType>(packed[0]), static_cast<int32_t>(packed[1])};
  p.batch_size = packed[2];
  p.num_q_heads = packed[3];
  p.num_kv_heads = packed[4];
  p.head_dim = packed[5];
  p.total_seqlen_q = packed[6];
  p.max_seqlen_q = packed[7];
  p.max_seqlen_k = packed[8];
  p.kv_split_size = packed[9];
  p.batch_invariant = packed[10] != 0;
  p.prefill_precision = precision_of(packed[11]);
  plan.max_num_splits = packed[12];
  plan.workspace_bytes = packed[13];
  return plan;
}

PackedPlan plan(DLDevice device, int64_t batch_size, int64_t num_q_heads, int64_t num_kv_heads,
                int64_t head_dim, int64_t total_seqlen_q, int64_t max_seqlen_q,
                int64_t max_seqlen_k, int64_t kv_split_size, bool batch_invariant,
                int64_t prefill_precision) {
  return pack_plan(mpfa::plan({.device = device,
                               .batch_size = batch_size,
                               .num_q_heads = num_q_heads,
                               .num_kv_heads = num_kv_heads,
                               .head_dim = head_dim,
                               .total_seqlen_q = total_seqlen_q,
                               .max_seqlen_q = max_seqlen_q,
                               .max_seqlen_k = max_seqlen_k,
                               .kv_split_size = kv_split_size,
                               .batch_invariant = batch_invariant,
                               .prefill_precision = precision_of(prefill_precision)}));
}

void schedule(const Array<OptionalTensor>& cache, const Tensor& block_table, const Tensor& seq_lens,
              const OptionalTensor& cu_seqlens_q, bool causal, int64_t window_left,
              const OptionalTensor& error_count, const PackedPlan& plan, const Tensor& workspace) {
  mpfa::schedule(
      cache_view(cache), view(block_table), view(seq_lens), view_or_null(cu_seqlens_q),
      {.causal = causal, .window_left = window_left, .error_count = view_or_null(error_count)},
      unpack_plan(plan), view(workspace), stream_of(block_table));
}

void attention(const Tensor& out, const OptionalTensor& lse, const Tensor& q,
               const Array<OptionalTensor>& cache, const Tensor& block_table,
               const Tensor& seq_lens, const OptionalTensor& cu_seqlens_q,
               const Optional<double>& softmax_scale, bool causal, int64_t window_left,
               double softcap, const OptionalTensor& sinks, bool is_scheduled,
               const OptionalTensor& error_count, const PackedPlan& plan,
               const OptionalTensor& workspace) {
  AttentionParams params{.causal = causal,
                         .window_left = window_left,
                         .softcap = static_cast<float>(softcap),
                         .sinks = view_or_null(sinks),
                         .is_scheduled = is_scheduled,
                         .error_count = view_or_null(error_count)};
  if (softmax_scale.has_value()) params.softmax_scale = static_cast<float>(softmax_scale.value());
  mpfa::attention(view(out), view_or_null(lse), view(q), cache_view(cache), view(block_table),
                  view(seq_lens), view_or_null(cu_seqlens_q), params, unpack_plan(plan),
                  view_or_null(workspace), stream_of(q));
}

void merge_states(const Tensor& out, const OptionalTensor& lse, const Array<Tensor>& outs,
                  const Array<Tensor>& lses) {
  const auto views = [](const Array<Tensor>& tensors) {
    std::vector<const DLTensor*> result;
    for (const Tensor& tensor : tensors) result.push_back(tensor.GetDLTensorPtr());
    return result;
  };
  mpfa::merge_states(view(out), view_or_null(lse), views(outs), views(lses), stream_of(out));
}

}  // namespace
}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(plan)
MPFA_PYTHON_EXPORT(schedule)
MPFA_PYTHON_EXPORT(attention)
MPFA_PYTHON_EXPORT(merge_states)
