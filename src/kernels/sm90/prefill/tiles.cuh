// Which sequence a tile of unpacked keys belongs to, from lengths that only the device knows.
#pragma once

#include "kernels/any/prefill/sequence.cuh"
#include "kernels/sm90/prefill/params.h"

namespace mpfa::kernels::sm90 {

struct KeyTile {
  int32_t sequence = -1;  // none: the tile is behind the last sequence
  int32_t tile = 0;       // of the sequence's
  StepSequence step;
};

__device__ __forceinline__ int32_t key_tiles_of(const StepSequence& s) {
  return s.seqlen_q > 0 ? ceil_div(s.seqlen_k, kTileKeys) : 0;
}

// By one warp: how many tiles the sequences before this one have.
__device__ __forceinline__ int32_t key_tiles_before(const ScheduleParams& p, int32_t sequence,
                                                    int lane) {
  int32_t tiles = 0;
  for (int b = lane; b < sequence; b += 32) tiles += key_tiles_of(read_step_sequence(p, b));
#pragma unroll
  for (int step = 16; step > 0; step /= 2) tiles += __shfl_xor_sync(~0u, tiles, step);
  return tiles;
}

// By one warp: tile `slot` of all; lane 0 and all others get the same.
__device__ __forceinline__ KeyTile find_key_tile(const ScheduleParams& p, int32_t slot, int lane) {
  int32_t before = 0;
  for (int base = 0; base < p.batch_size && before <= slot; base += 32) {
    const int b = base + lane;
    StepSequence s;
    if (b < p.batch_size) s = read_step_sequence(p, b);
    const int32_t own = key_tiles_of(s);
    const int32_t end = before + sum_up_to_lane(own, lane);
    const uint32_t has = __ballot_sync(~0u, slot >= end - own && slot < end);
    if (has != 0) {
      const int from = __ffs(static_cast<int>(has)) - 1;
      KeyTile found;
      found.sequence = base + from;
      found.tile = slot - __shfl_sync(~0u, end - own, from);
      found.step.q_begin = __shfl_sync(~0u, s.q_begin, from);
      found.step.seqlen_q = __shfl_sync(~0u, s.seqlen_q, from);
      found.step.seqlen_k = __shfl_sync(~0u, s.seqlen_k, from);
      return found;
    }
    before = __shfl_sync(~0u, end, 31);
  }
  return {};
}

}  // namespace mpfa::kernels::sm90
