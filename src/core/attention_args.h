// The inputs of attention(), checked once and turned into typed tensors; shared by the fast kernels
// and by the oracle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cache_layout.h"
#include "core/tensor.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

// Rows of activations [rows, heads, d] whose element type is a run-time value.
struct ActivationTensor {
  std::byte* data = nullptr;
  FloatType type = FloatType::kFp32;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t row_stride = 0;   // bytes
  int64_t head_stride = 0;  // bytes

  std::byte* at(int64_t row, int64_t head) const {
    return data + row * row_stride + head * head_stride;
  }
  static ActivationTensor from(const DLTensor& tensor, std::string_view name);
};

// Visible keys of one query row: [begin, end).
struct KeyRange {
  int64_t begin;
  int64_t end;
  bool empty() const { return begin >= end; }
};

struct AttentionInputs {
  ActivationTensor q;  // [total_q, Hq, d]
  CacheTensors cache;
  Tensor<int32_t, 2> block_table;   // [b, max_pages]
  Tensor<int32_t, 1> seq_lens;      // [b]
  Tensor<int32_t, 1> cu_seqlens_q;  // [b + 1], or absent: one row per sequence
  Tensor<float, 1> sinks;           // [Hq], or absent
  int64_t batch_size = 0;
  int64_t group_size = 0;  // query heads per KV head
  float softmax_scale = 0;
  bool causal = true;
  int64_t window_left = -1;
  float softcap = 0;

  int64_t q_begin(int64_t b) const { return cu_seqlens_q ? *cu_seqlens_q.at(b) : b; }
  int64_t seqlen_q(int64_t b) const {
    return cu_seqlens_q ? *cu_seqlens_q.at(b + 1) - *cu_seqlens_q.at(b) : 1;
  }
  int64_t seqlen_k(int64_t b) const { return *seq_lens.at(b); }

  // Keys that query i (0-based within its sequence) sees: docs/spec.md, section 3, bottom-right
  // aligned.
  KeyRange visible_keys(int64_t b, int64_t i) const;
};

// Throws InvalidArgument naming what does not fit. Where values are known, it looks at every length
// and every used block-table entry, so that nothing after it can leave the cache.
AttentionInputs check_attention_inputs(const DLTensor& q, const KvCacheView& cache,
                                       const DLTensor& block_table, const DLTensor& seq_lens,
                                       const DLTensor* cu_seqlens_q, const AttentionParams& params,
                                       Values values = Values::kKnown);

// Checks out against q (same shape and type); overlaps are check_written's.
ActivationTensor check_attention_output(const DLTensor& out, const DLTensor& q);
// Checks lse [total_q, Hq]; null gives an absent tensor.
Tensor<float, 2> check_lse(const DLTensor* lse, std::string_view name, int64_t rows, int64_t heads);

}  // namespace mpfa::internal
