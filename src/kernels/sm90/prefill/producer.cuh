// The warps that bring things: unpacked keys and values by the copy engine, last tile first.
#pragma once

#include "kernels/ptx/copy.cuh"
#include "kernels/sm90/prefill/query.cuh"
#include "kernels/sm90/prefill/work.cuh"

namespace mpfa::kernels::sm90 {

// By one thread: `copy` of all tiles of all work.
template <class Config, class Copy>
__device__ __forceinline__ void copy_tiles(const Sm90PrefillParams& params,
                                           const SharedPlan<Config>& plan, Copy copy) {
  typename SharedPlan<Config>::WorkPlace at;
  typename SharedPlan<Config>::Stage stage;
  for (;; at.advance()) {
    ptx::barrier_wait(plan.work_known(at.place), at.parity);
    const WorkTile<Config>& work = plan.work(at.place);
    const int count = work.num_tiles;
    const int head = work.segment.kv_head - params.first_head;
    int place = work.first_place + (work.first_tile + count - 1) * Config::kKeys;
    ptx::barrier_arrive(plan.work_done(at.place));
    if (count == 0) return;
#pragma unroll 1
    for (int i = 0; i < count; ++i, place -= Config::kKeys, stage.advance()) {
      copy(stage, place, head);
    }
  }
}

template <class Config>
__device__ void copy_all_keys(const Sm90PrefillParams& params, const SharedPlan<Config>& plan) {
  copy_tiles(params, plan, [&](const auto& stage, int place, int head) {
    ptx::barrier_wait(plan.keys_empty(stage.place), stage.parity ^ 1);
    const uint32_t full = plan.keys_full(stage.place);
    ptx::barrier_expect(full, Config::kKeyTileBytes);
#pragma unroll
    for (int box = 0; box < Config::kBoxes; ++box) {
      ptx::tensor_copy(plan.keys(stage.place) + box * Config::kBox, params.keys_map, box * 64,
                       place, head, full);
    }
  });
}

template <class Config>
__device__ void copy_all_values(const Sm90PrefillParams& params, const SharedPlan<Config>& plan) {
  copy_tiles(params, plan, [&](const auto& stage, int place, int head) {
    ptx::barrier_wait(plan.values_empty(stage.place), stage.parity ^ 1);
    const uint32_t full = plan.values_full(stage.place);
    ptx::barrier_expect(full, Config::kHeadDim * Config::kKeys);
    ptx::tensor_copy(plan.values(stage.place), params.values_map, place, 0, head, full);
  });
}

// By the loaders: finds work and brings its queries, a tile ahead.
template <class Config>
__device__ void bring_work(const Sm90PrefillParams& params, const SharedPlan<Config>& plan) {
  constexpr int kBarrier = 1;
  const int thread = static_cast<int>(threadIdx.x) % Config::kLoaders;
  typename SharedPlan<Config>::WorkPlace at;
#pragma unroll 1
  for (int count = 0;; ++count, at.advance()) {
    ptx::barrier_wait(plan.work_done(at.place), at.parity ^ 1);
    WorkTile<Config>& work = plan.work(at.place);
    if (thread < 32) find_work<Config>(params, count, thread, work);
    ptx::barrier_sync(kBarrier, Config::kLoaders);
    const bool is_last = work.num_tiles == 0;
    if (thread == 0) ptx::barrier_arrive(plan.work_known(at.place));
    if (!is_last) QueryLoader<Config>(params, at.place).load();
    ptx::barrier_arrive(plan.work_ready(at.place));
    if (is_last) return;
  }
}

}  // namespace mpfa::kernels::sm90
