// Stands in for the CUDA back end in builds without nvcc.
#include "cuda/append.h"
#include "cuda/attention.h"
#include "cuda/cache_file.h"
#include "cuda/means.h"
#include "cuda/memory.h"
#include "cuda/merge_states.h"
#include "cuda/plan.h"
#include "cuda/quantize_q.h"

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

void cuda_merge_states(const DLTensor& /*out*/, const DLTensor* /*lse*/,
                       std::span<const DLTensor* const> /*outs*/,
                       std::span<const DLTensor* const> /*lses*/, cudaStream_t /*stream*/) {
  refuse("out");
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

void* cuda_allocate(int /*device*/, int64_t /*bytes*/) { refuse("the cache"); }

// Nothing has been allocated.
void cuda_free(void* /*memory*/) noexcept {}

void cuda_upload(const void* /*from*/, int64_t /*bytes*/, const DLTensor& /*to*/) {
  refuse("the cache");
}

void cuda_download(const DLTensor& /*from*/, std::byte* /*to*/) { refuse("k_codes"); }

void cuda_check_cache_file(const KvCacheFile& /*file*/) { refuse("k_codes"); }

void cuda_quantize_q(const DLTensor& /*q*/, const QuantizedQ& /*out*/,
                     const QuantizeQParams& /*params*/, cudaStream_t /*stream*/) {
  refuse("q");
}

}  // namespace mpfa::internal
