// Stands in for the CUDA back end in builds without nvcc.
#include "cuda/append.h"
#include "cuda/attention.h"
#include "cuda/means.h"
#include "cuda/plan.h"

namespace mpfa::internal {
namespace {

[[noreturn]] void refuse(const char* what) {
  MPFA_CHECK(false, what, " lies on a GPU (DLPack device type 2): this build has the CPU back end ",
             "only (device type 1), as nvcc was not found when it was configured");
  __builtin_unreachable();
}

}  // namespace

Plan cuda_plan(const PlanParams& /*params*/) { refuse("plan.params.device"); }

void cuda_schedule(const KvCacheView& /*cache*/, const DLTensor& /*block_table*/,
                   const DLTensor& /*seq_lens*/, const DLTensor* /*cu_seqlens_q*/,
                   const AttentionParams& /*params*/, const Plan& /*plan*/,
                   const DLTensor& /*workspace*/, cudaStream_t /*stream*/) {
  refuse("seq_lens");
}

void cuda_attention(const AttentionCall& /*call*/, const AttentionParams& /*params*/,
                    const Plan& /*plan*/, cudaStream_t /*stream*/) {
  refuse("q");
}

void cuda_append_kv(const KvCacheView& /*cache*/, const DLTensor& /*k*/, const DLTensor& /*v*/,
                    const DLTensor& /*slot_mapping*/, const AppendParams& /*params*/,
                    cudaStream_t /*stream*/) {
  refuse("k");
}

void cuda_compute_means(const DLTensor& /*x*/, const DLTensor* /*cu_seqlens*/,
                        const DLTensor& /*out*/, cudaStream_t /*stream*/) {
  refuse("x");
}

}  // namespace mpfa::internal
