// Attention over the paged low-bit cache: one entry for prefill, chunked prefill and decode
// (docs/spec.md, section 3).
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <optional>
#include <span>

#include "mpfa/cache.h"
#include "mpfa/stream.h"

namespace mpfa {

struct AttentionParams {
  std::optional<float> softmax_scale = {};  // default 1 / sqrt(head_dim)
  bool causal = true;        // bottom-right aligned: query i sees keys j <= i + seqlen_k - seqlen_q
  int64_t window_left = -1;  // >= 0: query i sees only j >= i + seqlen_k - seqlen_q - window_left
  float softcap = 0.0f;      // > 0: score = softcap * tanh(score / softcap)
  const DLTensor* sinks = nullptr;  // [Hq] FP32: logits that join the softmax's denominator only
  // On a GPU: schedule() has been called for these lengths with the same workspace.
  bool is_scheduled = false;
  // [1] int32 on the GPU, or null: incremented at least once for every length, page and row of
  // statistics that is out of range, which the host cannot see (a page each time that a kernel
  // meets it). Such a length counts as the nearest valid one, such a page as page 0. On the CPU
  // they are errors, and this is not used.
  const DLTensor* error_count = nullptr;
};

// How a GPU of compute capability 9.0 (Hopper) multiplies long queries, those that max_seqlen_q of
// the plan lets have more than 16 rows: a hint. Everything else computes as kFp16 does: other GPUs,
// short queries, caches with delta_s, plans whose keys need too much memory (plan()). On the CPU it
// means nothing.
enum class PrefillPrecision {
  kAuto,  // kFp16
  // Probabilities and values in FP16, scores in FP32: the most accurate. An error of about 2e-3 of
  // the output, by relative L2, from rounding alone.
  kFp16,
  // Probabilities in e4m3, which values are, and scores in FP32. Rounding the probabilities gives
  // an error of 2e-2 to 3e-2 where many keys count alike, less where few do, and of up to 1e-2 in
  // lse. Exact up to logits of 2^20; beyond 2^31 results may be wrong.
  kFp8,
  // As kFp8, with scores in FP16: the fastest. Exponents of 2 are rounded to 11 bits of the largest
  // that the row could reach, which costs accuracy from logits of some hundred on; beyond 4 * 10^4
  // results may be wrong or NaN.
  kFp8Fp16Scores,
};

// The most that the calls under one plan may need. Lengths above them are an error.
struct PlanParams {
  DLDevice device = {kDLCPU, 0};
  int64_t batch_size = 0;
  int64_t num_q_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t total_seqlen_q = 0;  // rows of q of one call, at most
  // Rows of one sequence, at most; 0: total_seqlen_q. On a GPU a plan for more than 16 gets the
  // kernel for prompts, which is slow for single rows with many keys: decode steps want a plan of
  // their own.
  int64_t max_seqlen_q = 0;
  int64_t max_seqlen_k = 0;  // longest sequence in the cache, at most
  // Tokens of the cache that one work item covers. 0 chooses (on a GPU, unless batch_invariant, by
  // the lengths of the whole batch); results depend on it only in rounding.
  int64_t kv_split_size = 0;
  // Results of a sequence do not depend on the others of its batch: so it always is on the CPU, and
  // on a GPU where parts have a fixed size, which costs some speed.
  bool batch_invariant = false;
  PrefillPrecision prefill_precision = PrefillPrecision::kAuto;
};

// What plan() returns; attention() refuses a changed one.
struct Plan {
  PlanParams params;            // with kv_split_size chosen
  int64_t max_num_splits = 1;   // splits of the longest sequence
  int64_t workspace_bytes = 0;  // 0: attention() needs no workspace
};

// Splits the work; depends on nothing but `params` (and on a GPU, on its model), so that results do
// not depend on the machine's thread count. Errors: InvalidArgument, also where the workspace would
// exceed 2^63 - 1 bytes.
//
// On a GPU of compute capability 9.0 the workspace of a plan for long queries has room for unpacked
// keys and values: 3 head_dim bytes for each of min(batch_size, total_seqlen_q) * max_seqlen_k
// tokens (a sequence's rounded up to 128) and KV head, of as many heads at once as fit 512 MiB, at
// least one. Where one takes more than 4 GiB there is no such room, and the kernel for all GPUs
// takes the calls: max_seqlen_k should not be larger than need be.
Plan plan(const PlanParams& params);

// Shares the work of one step out to a GPU's multiprocessors and writes that into the workspace,
// for any number of attention() calls with AttentionParams::is_scheduled: a model's layers, which
// have the same lengths and pages. Arguments as those calls', `cache` any layer's; of `params` the
// mask counts. A call that is not scheduled does it itself. On the CPU it does nothing.
void schedule(const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
              const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
              const DLTensor& workspace, cudaStream_t stream = nullptr);

// out = softmax(softmax_scale * q k^T + masks) v, k and v read from the cache.
//
// The tensors' device picks the back end: all on the CPU, or all on one GPU of compute capability
// 8.0 or later. There the call is asynchronous on `stream`, allocates nothing and may be captured
// in a CUDA graph, whose replays follow what then lies in the tensors. Calls that may run at the
// same time need workspaces of their own.
//
//   out           like q, same type
//   lse           [total_q, Hq] FP32, any strides, or null: natural logarithm of the denominator,
//                 rowbias included (docs/spec.md, section 3)
//   q             [total_q, Hq, d]  BF16, FP16 or FP32 (CPU only), aligned to its elements; any
//                 outer strides, innermost contiguous
//   block_table   [b, max_pages] int32: page numbers of each sequence
//   seq_lens      [b] int32: tokens of each sequence in the cache, the new ones included
//   cu_seqlens_q  [b + 1] int32: rows of q of each sequence; null: one row each (decode). Rows past
//                 cu_seqlens_q[b] are padding: not read in q and left alone in out and lse
//   workspace     uint8 [>= plan.workspace_bytes] on the same device, aligned to 4 bytes (on a GPU
//                 to 256); null, or ignored, if that is 0. Its bytes before the call do not matter
//   cache         on a GPU: rows of k_codes and v aligned to 16 bytes, of k_scales, k_residual and
//                 delta_s to 4
//
// A row without a visible key gives output 0 and lse -inf. Bytes of the cache past a sequence's
// length are never read into a result. What is written (out, lse, workspace) must not share memory
// with itself or with another argument, q and the cache included; tensors may interleave in one
// buffer. Errors: InvalidArgument, before anything is written.
void attention(const DLTensor& out, const DLTensor* lse, const DLTensor& q,
               const KvCacheView& cache, const DLTensor& block_table, const DLTensor& seq_lens,
               const DLTensor* cu_seqlens_q, const AttentionParams& params, const Plan& plan,
               const DLTensor* workspace, cudaStream_t stream = nullptr);

// Merges attention over disjoint parts of the keys into attention over all of them.
//
//   outs  each [total_q, Hq, d] (BF16, FP16 or FP32), lses each [total_q, Hq] FP32, as attention()
//         returns them; parts may have been centred by different means, lse carries rowbias
//   out, lse (or null): the merged state. A state (anything, -inf) counts for nothing; all of them
//         -inf gives (0, -inf). out may be exactly one of outs, and lse exactly one of lses: the
//         same address, shape, strides and type. Any other overlap is an error.
//
// The tensors' device picks the back end, as for attention(). On a GPU at most 512 states are
// merged at once, the call is asynchronous on `stream`, allocates nothing there and may be captured
// in a CUDA graph; results agree with the CPU's to rounding (FP32 sums instead of FP64).
void merge_states(const DLTensor& out, const DLTensor* lse, std::span<const DLTensor* const> outs,
                  std::span<const DLTensor* const> lses, cudaStream_t stream = nullptr);

}  // namespace mpfa
