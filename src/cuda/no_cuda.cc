// Stands in for the CUDA back end in builds without nvcc.
#include "cuda/attention.h"
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

}  // namespace mpfa::internal
