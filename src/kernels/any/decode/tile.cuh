// Tiles of 32 keys in shared memory: each consumer warp has a ring of them, which the producer warp
// fills (producer.cuh).
#pragma once

#include "kernels/any/decode/config.h"
#include "kernels/ptx/barrier.cuh"

namespace mpfa::kernels {

// Byte `at` of a row of V in shared memory: the 16-byte pieces of rows are exchanged as a tensor
// map's 128-byte (64-byte) swizzle does, so that reads down a column of rows meet different banks.
template <int kRowBytes>
__device__ __forceinline__ int swizzled(int row, int at) {
  constexpr int kRowsPerLine = 128 / kRowBytes;
  constexpr int kPieces = kRowBytes / 16;
  return row * kRowBytes + (at ^ (row / kRowsPerLine % kPieces * 16));
}

// Addresses of a slot: stage `stage` of warp `warp`.
template <class Config>
struct TileSlot {
  static constexpr int kValueBytes = kTileTokens * Config::kHeadDim;
  uint32_t values;
  uint32_t keys;     // codes, and what SharedMemoryPlan says, behind them
  uint32_t barrier;  // K is there; + 8: V is there; + 16: the slot is free

  __device__ __forceinline__ TileSlot(uint32_t shared, const SharedMemoryPlan& plan, int warp,
                                      int stage) {
    const int slot = warp * kMaxStages + stage;
    values = shared + slot * kValueBytes;
    keys = shared + plan.tiles + slot * plan.tile_bytes;
    barrier = shared + plan.barriers + slot * kSlotBarrierBytes;
  }
};

// A consumer warp's own tiles, in order.
template <class Config>
class TileConsumer {
 public:
  __device__ TileConsumer(uint32_t shared, const SharedMemoryPlan& plan, int warp)
      : shared_(shared), plan_(plan), warp_(warp) {}

  __device__ __forceinline__ TileSlot<Config> slot() const {
    return {shared_, plan_, warp_, static_cast<int>(used_ % kMaxStages)};
  }
  __device__ __forceinline__ void wait_keys(const TileSlot<Config>& slot) const {
    ptx::barrier_wait(slot.barrier, used_ / kMaxStages & 1);
  }
  __device__ __forceinline__ void wait_values(const TileSlot<Config>& slot) const {
    ptx::barrier_wait(slot.barrier + 8, used_ / kMaxStages & 1);
  }
  __device__ __forceinline__ void release(const TileSlot<Config>& slot, int lane) {
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(slot.barrier + 16);
    ++used_;
  }

 private:
  uint32_t shared_;
  const SharedMemoryPlan& plan_;
  int warp_;
  uint32_t used_ = 0;
};

}  // namespace mpfa::kernels
