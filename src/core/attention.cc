// attention(), schedule() and merge_states(): the tensors' device picks the back end.
#include "mpfa/attention.h"

#include "core/attention_memory.h"
#include "cpu/attention.h"
#include "cuda/attention.h"
#include "cuda/merge_states.h"

namespace mpfa {

void schedule(const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
              const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
              const DLTensor& workspace, cudaStream_t stream) {
  if (seq_lens.device.device_type != kDLCUDA) return;
  internal::cuda_schedule(cache, block_table, seq_lens, cu_seqlens_q, params, plan, workspace,
                          stream);
}

void attention(const DLTensor& out, const DLTensor* lse, const DLTensor& q,
               const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
               const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
               const DLTensor* workspace, cudaStream_t stream) {
  const internal::AttentionCall call{out,      lse,          q,        cache, block_table,
                                     seq_lens, cu_seqlens_q, workspace};
  if (q.device.device_type == kDLCUDA) {
    internal::cuda_attention(call, params, plan, stream);
  } else {
    internal::cpu_attention(call, params, plan);
  }
}

void merge_states(const DLTensor& out, const DLTensor* lse, std::span<const DLTensor* const> outs,
                  std::span<const DLTensor* const> lses, cudaStream_t stream) {
  if (out.device.device_type == kDLCUDA) {
    internal::cuda_merge_states(out, lse, outs, lses, stream);
  } else {
    internal::cpu_merge_states(out, lse, outs, lses);
  }
}

}  // namespace mpfa
