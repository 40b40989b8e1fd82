#include "common/sequence_attention.h"

#include "mpfa/tensor.h"

namespace mpfa::tools {

SequenceAttention::SequenceAttention(const KvCache& cache, const Limits& limits,
                                     const AttentionParams& params)
    : cache_(cache), params_(params), cu_seqlens_("cu_seqlens_q", internal::kInt32Type, {2}) {
  PlanParams plan_params;
  plan_params.batch_size = 1;
  plan_params.num_q_heads = limits.num_q_heads;
  plan_params.num_kv_heads = cache.config().num_kv_heads;
  plan_params.head_dim = cache.config().head_dim;
  plan_params.total_seqlen_q = limits.max_rows;
  plan_params.max_seqlen_k = limits.max_keys;
  plan_params.kv_split_size = limits.kv_split_size;
  plan_ = plan(plan_params);
  if (plan_.workspace_bytes > 0) {
    workspace_ = OwnedTensor("workspace", internal::kUint8Type, {plan_.workspace_bytes});
  }
}

void SequenceAttention::run(const DLTensor& out, const DLTensor* lse, const DLTensor& q) const {
  cu_seqlens_.data<int32_t>()[1] = static_cast<int32_t>(q.shape[0]);
  attention(out, lse, q, cache_.view(), *cache_.block_table(), *cache_.seq_lens(),
            cu_seqlens_.get(), params_, plan_, workspace_.get());
}

int64_t sequence_length(const KvCache& cache) { return data_as<int32_t>(*cache.seq_lens())[0]; }

}  // namespace mpfa::tools
