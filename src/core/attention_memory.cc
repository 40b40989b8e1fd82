#include "core/attention_memory.h"

#include <vector>

#include "core/overlap.h"
#include "core/plan.h"

namespace mpfa::internal {

void check_fits_plan(const AttentionInputs& in, const Plan& plan) {
  check_plan(plan);
  const PlanParams& p = plan.params;
  MPFA_CHECK(in.batch_size <= p.batch_size, "batch size ", in.batch_size,
             ": exceeds plan.params.batch_size = ", p.batch_size);
  MPFA_CHECK(in.q.rows <= p.total_seqlen_q, "q has ", in.q.rows,
             " rows: exceeds plan.params.total_seqlen_q = ", p.total_seqlen_q);
  MPFA_CHECK(in.q.heads == p.num_q_heads && in.cache.num_kv_heads == p.num_kv_heads &&
                 in.cache.head_dim == p.head_dim,
             "q and the cache have ", in.q.heads, " query heads, ", in.cache.num_kv_heads,
             " KV heads and head_dim ", in.cache.head_dim, ": the plan was made for ",
             p.num_q_heads, ", ", p.num_kv_heads, " and ", p.head_dim);
}

std::byte* check_workspace(const DLTensor* workspace, const Plan& plan, size_t alignment) {
  if (plan.workspace_bytes == 0) return nullptr;
  MPFA_CHECK(workspace != nullptr, "workspace is null: the plan needs ", plan.workspace_bytes,
             " bytes");
  const auto bytes = Tensor<uint8_t, 1>::from(*workspace, "workspace");
  MPFA_CHECK(bytes.size(0) >= plan.workspace_bytes, "workspace has ", bytes.size(0),
             " bytes: the plan needs ", plan.workspace_bytes);
  MPFA_CHECK(reinterpret_cast<uintptr_t>(bytes.at()) % alignment == 0,
             "workspace is not aligned to ", alignment, " bytes");
  return reinterpret_cast<std::byte*>(bytes.at());
}

void check_memory(const AttentionCall& call, const DLTensor* sinks, bool uses_workspace) {
  std::vector<NamedTensor> inputs = {{&call.q, "q"},
                                     {&call.block_table, "block_table"},
                                     {&call.seq_lens, "seq_lens"},
                                     {call.cu_seqlens_q, "cu_seqlens_q"},
                                     {sinks, "sinks"}};
  for (const NamedTensor& page : page_tensors(call.cache)) inputs.push_back(page);
  for (const NamedTensor& row : stats_tensors(call.cache)) inputs.push_back(row);
  const NamedTensor written[] = {{&call.out, "out"},
                                 {call.lse, "lse"},
                                 {uses_workspace ? call.workspace : nullptr, "workspace"}};
  check_written(written, inputs);
}

}  // namespace mpfa::internal
