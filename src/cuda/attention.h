// attention() on a GPU.
#pragma once

#include "core/attention_memory.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

// Errors: InvalidArgument, CudaError; before anything is launched.
void cuda_schedule(const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
                   const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
                   const DLTensor& workspace, cudaStream_t stream);
void cuda_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan,
                    cudaStream_t stream);
// `unpacked_bytes`: a bound below kUnpackedBytes (sm90_prefill.h), for tests.
void cuda_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan,
                    cudaStream_t stream, int64_t unpacked_bytes);

}  // namespace mpfa::internal
