// What a step's tensors say of a sequence, with everything in range: the host has not seen it.
#pragma once

#include "kernels/any/decode/params.h"

namespace mpfa::kernels {

struct StepSequence {
  int32_t q_begin = 0;
  int32_t seqlen_q = 0;
  int32_t seqlen_k = 0;
  bool is_wrong = false;  // a length or a row was out of range and has been clamped
};

__device__ __forceinline__ int32_t clamp(int32_t x, int32_t low, int32_t high) {
  return min(max(x, low), high);
}
__device__ __forceinline__ int32_t ceil_div(int32_t x, int32_t y) { return (x + y - 1) / y; }

__device__ __forceinline__ StepSequence read_step_sequence(const ScheduleParams& p, int b) {
  StepSequence s;
  const int32_t length = p.seq_lens[b * p.seq_lens_stride];
  const int64_t room = min(int64_t{p.max_pages} * p.page_size, int64_t{p.max_seqlen_k});
  s.seqlen_k = clamp(length, 0, static_cast<int32_t>(room));
  s.is_wrong = s.seqlen_k != length;
  if (p.cu_seqlens_q == nullptr) {
    s.q_begin = b;
    s.seqlen_q = 1;
    return s;
  }
  const int32_t begin = p.cu_seqlens_q[b * p.cu_seqlens_q_stride];
  const int32_t end = p.cu_seqlens_q[(b + 1) * p.cu_seqlens_q_stride];
  s.q_begin = clamp(begin, 0, p.total_seqlen_q);
  const int32_t last = min(p.total_seqlen_q - s.q_begin, p.max_seqlen_q) + s.q_begin;
  s.seqlen_q = clamp(end, s.q_begin, last) - s.q_begin;
  s.is_wrong = s.is_wrong || begin != s.q_begin || end != s.q_begin + s.seqlen_q;
  return s;
}

// The sequence's row of statistics, the nearest one if it is out of range.
__device__ __forceinline__ int32_t stats_row_of(const ScheduleParams& p, int b) {
  if (p.stats_index == nullptr) return 0;
  return clamp(p.stats_index[b * p.stats_index_stride], 0, p.num_stats - 1);
}

// Counts a sequence of which something is out of range.
__device__ __forceinline__ void count_if_wrong(const ScheduleParams& p, const StepSequence& s,
                                               int b) {
  bool is_wrong = s.is_wrong;
  if (p.stats_index != nullptr) {
    is_wrong = is_wrong || p.stats_index[b * p.stats_index_stride] != stats_row_of(p, b);
  }
  if (is_wrong) atomicAdd(p.error_count, 1);
}

// Rows [first_row, ...) of a sequence and KV head.
__device__ __forceinline__ DecodeSegment segment_of_rows(const ScheduleParams& p, int b,
                                                         const StepSequence& s, int32_t kv_head,
                                                         int32_t first_row) {
  DecodeSegment segment = {};
  segment.sequence = b;
  segment.kv_head = kv_head;
  segment.first_row = first_row;
  segment.first_position = first_row / p.group_size;
  segment.first_head = first_row % p.group_size;
  segment.q_begin = s.q_begin;
  segment.seqlen_q = s.seqlen_q;
  segment.seqlen_k = s.seqlen_k;
  segment.stats_row = stats_row_of(p, b);
  return segment;
}

}  // namespace mpfa::kernels
