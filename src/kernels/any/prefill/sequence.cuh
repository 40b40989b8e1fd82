// Which rows a CTA has, from lengths that only the device knows.
#pragma once

#include "kernels/any/decode/sequence.cuh"
#include "kernels/any/prefill/params.h"

namespace mpfa::kernels {

__device__ __forceinline__ int32_t row_tiles_of(const StepSequence& s, int32_t group_size,
                                                int32_t rows) {
  return ceil_div(s.seqlen_q * group_size, rows);
}

// Of the values of lanes 0 to this one.
__device__ __forceinline__ int32_t sum_up_to_lane(int32_t value, int lane) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += other;
  }
  return value;
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
    StepSequence s;
    if (b < p.batch_size) s = read_step_sequence(p, b);
    const int32_t own = row_tiles_of(s, p.group_size, rows);
    const int32_t end = before + sum_up_to_lane(own, lane);
    if (slot >= end - own && slot < end) {
      segment = segment_of_rows(p, b, s, kv_head, (end - 1 - slot) * rows);
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
    const StepSequence s = read_step_sequence(p, b);
    tiles += row_tiles_of(s, p.group_size, rows);
    count_if_wrong(p, s, b);
  }
  for (int step = 16; step > 0; step /= 2) tiles += __shfl_xor_sync(~0u, tiles, step);
  // Rows of q that several sequences claim: there are no CTAs for them all.
  if (lane == 0 && tiles > params.num_row_tiles) atomicAdd(p.error_count, 1);
}

}  // namespace mpfa::kernels
