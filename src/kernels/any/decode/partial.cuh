// Partial states in the workspace: where they lie, and how they are made ready to be waited for.
#pragma once

#include "kernels/any/decode/params.h"

namespace mpfa::kernels {

// Launches take turns with two halves of the partial states: one is written and waited for, while
// the other is made ready for the next launch.
__device__ __forceinline__ std::byte* partial_state(std::byte* workspace,
                                                    const DecodeWorkspace& layout, int64_t slot,
                                                    int launch) {
  return workspace + layout.partials +
         ((launch & 1) * int64_t{layout.num_slots} + slot) * layout.state_bytes;
}

// By `threads` threads, of which this is number `thread`.
__device__ __forceinline__ void clear_partial_state(std::byte* state, int state_bytes, int thread,
                                                    int threads) {
#pragma unroll 1
  for (int at = 16 * thread; at < state_bytes; at += 16 * threads) {
    *reinterpret_cast<uint4*>(state + at) =
        make_uint4(kNotWritten, kNotWritten, kNotWritten, kNotWritten);
  }
}

}  // namespace mpfa::kernels
