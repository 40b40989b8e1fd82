// Tiles of query rows: which one a CTA takes next, and the barriers by which its warps hand over
// what is in shared memory.
#pragma once

#include "kernels/any/prefill/sequence.cuh"
#include "kernels/any/prefill/tile.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/sm90/prefill/config.h"
#include "kernels/sm90/prefill/tiles.cuh"

namespace mpfa::kernels::sm90 {

__device__ __forceinline__ std::byte* shared_memory() {
  extern __shared__ __align__(1024) std::byte shared[];
  return shared;
}

// A tile of query rows of one sequence and KV head, and the tiles of keys that they see.
template <class Config>
struct alignas(16) WorkTile {
  DecodeSegment segment;
  PrefillView<Config> view;
  int first_place;  // of the sequence's keys among those of all
  int first_tile;   // of the sequence's tiles of keys
  int num_tiles;    // at least 1; 0: there is no more work
  int has_nan;      // some of these tiles' values were NaN
};

// A place in a ring, and the parity of its phase.
template <int kPlaces>
struct RingPlace {
  int place = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++place == kPlaces) {
      place = 0;
      parity ^= 1;
    }
  }
};

// Addresses in the CTA's shared memory.
template <class Config>
struct SharedPlan {
  uint32_t base;

  using Stage = RingPlace<Config::kStages>;
  using WorkPlace = RingPlace<Config::kWorks>;

  __device__ __forceinline__ uint32_t queries(int place) const {
    return base + Config::kQueries + place * Config::kQueryBytes;
  }
  __device__ __forceinline__ uint32_t keys(int stage) const {
    return base + Config::kKeyTiles + stage * Config::kKeyTileBytes;
  }
  __device__ __forceinline__ uint32_t values(int stage) const {
    return base + Config::kValueTiles + stage * Config::kValueTileBytes;
  }
  // Tiles of keys, of values: they are there, they are used up.
  __device__ __forceinline__ uint32_t keys_full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ uint32_t keys_empty(int stage) const {
    return barrier(Config::kStages + stage);
  }
  __device__ __forceinline__ uint32_t values_full(int stage) const {
    return barrier(2 * Config::kStages + stage);
  }
  __device__ __forceinline__ uint32_t values_empty(int stage) const {
    return barrier(3 * Config::kStages + stage);
  }
  // Work: its WorkTile is there, its queries are as well, it is done.
  __device__ __forceinline__ uint32_t work_known(int place) const {
    return barrier(4 * Config::kStages + place);
  }
  __device__ __forceinline__ uint32_t work_ready(int place) const {
    return barrier(4 * Config::kStages + Config::kWorks + place);
  }
  __device__ __forceinline__ uint32_t work_done(int place) const {
    return barrier(4 * Config::kStages + 2 * Config::kWorks + place);
  }

  // By one thread.
  __device__ void init_barriers() const {
    for (int i = 0; i < Config::kStages; ++i) {
      ptx::barrier_init(keys_full(i), 1);
      ptx::barrier_init(keys_empty(i), Config::kConsumers);
      ptx::barrier_init(values_full(i), 1);
      ptx::barrier_init(values_empty(i), Config::kConsumers);
    }
    for (int i = 0; i < Config::kWorks; ++i) {
      ptx::barrier_init(work_known(i), 1);
      ptx::barrier_init(work_ready(i), Config::kLoaders);
      ptx::barrier_init(work_done(i), 4 * Config::kConsumers + 2);  // warps, and two that copy
    }
    ptx::fence_barrier_init();
  }

  __device__ __forceinline__ static WorkTile<Config>& work(int place) {
    static_assert(sizeof(WorkTile<Config>) <= Config::kWorkBytes);
    return *reinterpret_cast<WorkTile<Config>*>(shared_memory() + Config::kWork +
                                                place * Config::kWorkBytes);
  }
  __device__ __forceinline__ static RowScalars* rows(int place) {
    return reinterpret_cast<RowScalars*>(shared_memory() + Config::kScalars +
                                         place * Config::kScalarBytes);
  }

 private:
  __device__ __forceinline__ uint32_t barrier(int i) const {
    return base + Config::kBarriers + i * 8;
  }
};

template <class Config>
__device__ __forceinline__ const uint32_t* nan_of_tiles(const Sm90PrefillParams& params,
                                                        const WorkTile<Config>& work) {
  return params.cache.has_nan +
         steps(work.segment.kv_head - params.first_head, params.cache.capacity / kTileKeys) +
         work.first_place / kTileKeys;
}

// By one warp.
template <class Config>
__device__ void find_nan(const Sm90PrefillParams& params, int lane, WorkTile<Config>& work) {
  const uint32_t* const has_nan = nan_of_tiles(params, work);
  uint32_t found = 0;
  for (int tile = work.first_tile + lane; tile < work.view.end_tile(); tile += 32) {
    found |= has_nan[tile];
  }
  found = __any_sync(~0u, found != 0);
  if (lane == 0) work.has_nan = static_cast<int>(found);
}

// By one warp: what the CTA's tile number `count` is.
template <class Config>
__device__ void find_work(const Sm90PrefillParams& params, int count, int lane,
                          WorkTile<Config>& work) {
  const ScheduleParams& step = params.common.step;
  const auto total =
      static_cast<uint32_t>(params.common.num_row_tiles) * static_cast<uint32_t>(params.num_heads);
  for (bool is_first = count == 0;; is_first = false) {
    uint32_t number = blockIdx.x;
    if (!is_first) {
      if (lane == 0) number = gridDim.x + atomicAdd(params.scheduler, 1u);
      number = __shfl_sync(~0u, number, 0);
    }
    if (number >= total) {
      if (lane == 0) work.num_tiles = 0;
      return;
    }
    const auto heads = static_cast<uint32_t>(params.num_heads);
    find_row_tile(step, static_cast<int>(number / heads),
                  params.first_head + static_cast<int>(number % heads), Config::kRows, lane,
                  work.segment);
    if (work.segment.seqlen_q > 0) break;
  }
  const int tiles = key_tiles_before(step, work.segment.sequence, lane);
  if (lane == 0) {
    work.view = view_of_rows<Config>(params.common.attention, work.segment);
    work.first_place = tiles * kTileKeys;
    work.first_tile = work.view.first_tile();
    // Rows without keys have a tile all the same, of which they see nothing.
    work.num_tiles = max(1, work.view.end_tile() - work.first_tile);
  }
  __syncwarp();
  find_nan(params, lane, work);
}

}  // namespace mpfa::kernels::sm90
