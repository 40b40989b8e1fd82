// The oracle: attention over the paged cache in scalar double precision, written to be read beside
// docs/spec.md, sections 2 and 3. It shares nothing with the fast kernels but the number formats
// and the argument checks.
#pragma once

#include <dlpack/dlpack.h>

#include <span>

#include "mpfa/attention.h"

namespace mpfa::internal {

// Same meaning as attention() of mpfa/attention.h, without a plan: the whole matrix of scores is
// formed, and each row's softmax is taken in two passes (maximum, then exponentials). Every
// operation is FP64; the only roundings are those stored in the cache and the final conversion to
// the type of `out`.
//
//   out           [total_q, Hq, d]  BF16, FP16, FP32 or FP64, whatever the type of q
//   lse           [total_q, Hq]  FP32 or FP64, any strides, or null
//   q             [total_q, Hq, d]  BF16, FP16 or FP32
//   block_table   [b, max_pages] int32
//   seq_lens      [b] int32
//   cu_seqlens_q  [b + 1] int32; null: one row each (decode)
//
// A row without a visible key gives output 0 and lse -inf. Rows of `out` past cu_seqlens_q's last
// are left alone. Errors: InvalidArgument, before anything is written. Results do not depend on the
// thread count.
void attention_reference(const DLTensor& out, const DLTensor* lse, const DLTensor& q,
                         const KvCacheView& cache, const DLTensor& block_table,
                         const DLTensor& seq_lens, const DLTensor* cu_seqlens_q,
                         const AttentionParams& params = {});

// Same meaning as merge_states() of mpfa/attention.h, in FP64: out = sum_p w_p out_p with
// w_p = exp(lse_p - lse), lse = log sum_p exp(lse_p). A part with lse -inf counts for nothing,
// whatever its output holds; all of them -inf gives (0, -inf).
//
//   out   [total_q, Hq, d], outs each of that shape: BF16, FP16, FP32 or FP64, each its own type
//   lse   [total_q, Hq] or null, lses each of that shape: FP32 or FP64, any strides
void merge_states_reference(const DLTensor& out, const DLTensor* lse,
                            std::span<const DLTensor* const> outs,
                            std::span<const DLTensor* const> lses);

}  // namespace mpfa::internal
