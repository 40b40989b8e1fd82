// Which rows a CTA has, from lengths that only the device knows.
#pragma once

#include "kernels/any/prefill/params.h"

namespace mpfa::kernels {

struct PrefillSequence {
  int32_t q_begin = 0;
  int32_t seqlen_q = 0;
  int32_t seqlen_k = 0;
  bool is_wrong = false;  // a length or a row was out of range and has been clamped
};

__device__ __forceinline__ int32_t within(int32_t x, int32_t low, int32_t high) {
  return min(max(x, low), high);
}

__device__ __forceinline__ PrefillSequence read_prefill_sequence(const ScheduleParams& p, int b) {
  PrefillSequence s;
  const int32_t length = p.seq_lens[b * p.seq_lens_stride];
  const int64_t room = min(int64_t{p.max_pages} * p.page_size, int64_t{p.max_seqlen_k});
  s.seqlen_k = within(length, 0, static_cast<int32_t>(room));
  const int32_t begin = p.cu_seqlens_q[b * p.cu_seqlens_q_stride];
  const int32_t end = p.cu_seqlens_q[(b + 1) * p.cu_seqlens_q_stride];
  s.q_begin = within(begin, 0, p.total_seqlen_q);
  const int32_t last = min(p.total_seqlen_q - s.q_begin, p.max_seqlen_q) + s.q_begin;
  s.seqlen_q = within(end, s.q_begin, last) - s.q_begin;
  s.is_wrong = s.seqlen_k != length || begin != s.q_begin || end != s.q_begin + s.seqlen_q;
  return s;
}

__device__ __forceinline__ int32_t row_tiles_of(const PrefillSequence& s, int32_t group_size,
                                                int32_t rows) {
  return (s.seqlen_q * group_size + rows - 1) / rows;
}

// By one warp: row tile number `slot` of the batch. A sequence's last rows come first, as they see
// most keys. Without such a tile the segment has no rows.
__device__ __forceinline__ void find_row_tile(const ScheduleParams& p, int32_t slot,
                                              int32_t kv_head, int32_t rows, int lane,
                                              DecodeSegment& segment) {
  if (lane == 0) segment.seqlen_q = 0;
  __syncwarp();
  int32_t before = 0;
  for (int base = 0; base < p.batch_size && before <= slot; base += 32) {
    const int b = base + lane;
    PrefillSequence s;
    if (b < p.batch_size) s = read_prefill_sequence(p, b);
    const int32_t own = row_tiles_of(s, p.group_size, rows);
    int32_t end = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int32_t other = __shfl_up_sync(~0u, end, step);
      if (lane >= step) end += other;
    }
    end += before;
    if (slot >= end - own && slot < end) {
      DecodeSegment found = {};
      found.sequence = b;
      found.kv_head = kv_head;
      found.first_row = (end - 1 - slot) * rows;
      found.first_position = found.first_row / p.group_size;
      found.first_head = found.first_row % p.group_size;
      found.q_begin = s.q_begin;
      found.seqlen_q = s.seqlen_q;
      found.seqlen_k = s.seqlen_k;
      if (p.stats_index != nullptr) {
        found.stats_row = within(p.stats_index[b * p.stats_index_stride], 0, p.num_stats - 1);
      }
      segment = found;
    }
    before = __shfl_sync(~0u, end, 31);
  }
  __syncwarp();
}

// By one warp: counts what is out of range.
__device__ __forceinline__ void count_wrong_sequences(const PrefillParams& params, int32_t rows,
                                                      int lane) {
  const ScheduleParams& p = params.step;
  int64_t tiles = 0;
  for (int b = lane; b < p.batch_size; b += 32) {
    const PrefillSequence s = read_prefill_sequence(p, b);
    tiles += row_tiles_of(s, p.group_size, rows);
    bool is_wrong = s.is_wrong;
    if (p.stats_index != nullptr) {
      const int32_t row = p.stats_index[b * p.stats_index_stride];
      is_wrong = is_wrong || row < 0 || row >= p.num_stats;
    }
    if (is_wrong) atomicAdd(p.error_count, 1);
  }
  for (int step = 16; step > 0; step /= 2) tiles += __shfl_xor_sync(~0u, tiles, step);
  // Rows of q that several sequences claim: there are no CTAs for them all.
  if (lane == 0 && tiles > params.num_row_tiles) atomicAdd(p.error_count, 1);
}

}  // namespace mpfa::kernels
