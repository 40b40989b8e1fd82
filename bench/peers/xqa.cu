// FlashInfer's XQA behind one plain function. The macros of FlashInfer's jit/xqa.py fix the group,
// the page, the head dimension and the cache's type, so each combination is a library of its own
// (build_flashinfer.sh).
#include "mha.h"
#include "xqa_call.h"

extern "C" __attribute__((visibility("default"))) void peer_xqa_run(
    const mpfa::peers::XqaCall& call, cudaStream_t stream) {
  // FlashInfer takes its Hopper kernel for an FP8 cache and the general one for BF16.
#if CACHE_ELEM_ENUM == 2
  const auto launch = launchHopperF8MHAFlashInfer;
#else
  const auto launch = launchMHAFlashInfer;
#endif
  launch(call.sm_count, call.num_kv_heads, /*slidingWinSize=*/0, /*qScale=*/1.0f,
         /*qScalePtr=*/nullptr, static_cast<OutputHead*>(call.out),
         static_cast<const InputHead*>(call.q), /*attentionSinks=*/nullptr,
         static_cast<GMemCacheHead*>(call.k), static_cast<GMemCacheHead*>(call.v), call.block_table,
         call.max_seqlen_k, call.seq_lens, call.batch_size,
         /*kvCacheScale=*/1.0f, /*kvScalePtr=*/nullptr, call.semaphores, call.scratch,
         /*enable_pdl=*/true, call.page_stride, call.token_stride, call.head_stride, stream);
}
