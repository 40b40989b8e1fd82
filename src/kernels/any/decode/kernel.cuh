// Decode attention. A CTA per SM has a list of segments (schedule.cu); its warps share a segment's
// tiles and keep a state each, merged at its end.
// docs/perf/decode-h200.md has the measurements behind the choices.
#pragma once

#include "kernels/any/decode/merge.cuh"
#include "kernels/ptx/atomic.cuh"

namespace mpfa::kernels {

// The work of a warp.
template <class Config>
class DecodeWarp {
 public:
  __device__ DecodeWarp(const DecodeParams& params, const SharedMemoryPlan& plan, std::byte* shared,
                        const DecodeRecord& record, int warp, int num_warps, int lane)
      : p_(params),
        plan_(plan),
        shared_(shared),
        record_(record),
        warp_(warp),
        num_warps_(num_warps),
        lane_(lane),
        ring_(params, plan, ptx::shared_address(shared), record, warp, num_warps, lane) {}

  // Segment by segment; a round attends to one and prepares the queries of the next.
  __device__ void run() {
    const int num_segments = record_.num_segments;
#pragma unroll 1
    for (int s = -1; s < num_segments; ++s) {
      if (s >= 0) attend(segment_at(s), s);
      if (s + 1 < num_segments) prepare_queries(s + 1);
      __syncthreads();
      if (s >= 0) merge(segment_at(s), s);
    }
  }

 private:
  // A warp's own copies, of the segment at hand and of the next.
  __device__ __forceinline__ DecodeSegment& segment_at(int s) const {
    return reinterpret_cast<DecodeSegment*>(shared_ + plan_.segments)[2 * warp_ + s % 2];
  }

  __device__ __forceinline__ void fetch_segment(int s) const {
    constexpr int kWords = sizeof(DecodeSegment) / 4;
    const auto* all = reinterpret_cast<const DecodeSegment*>(p_.workspace + p_.layout.segments);
    const DecodeSegment* from = s == 0 ? &record_.segment : all + record_.first_segment + s;
    if (lane_ < kWords) {
      reinterpret_cast<int*>(&segment_at(s))[lane_] = reinterpret_cast<const int*>(from)[lane_];
    }
    __syncwarp();
  }

  // Three, so that a warp may prepare segment s + 2 while another still merges s.
  __device__ __forceinline__ std::byte* query_buffer(int s) const {
    return shared_ + plan_.query + s % 3 * plan_.query_bytes;
  }
  __device__ __forceinline__ const RowScalars* scalars(int s) const {
    return reinterpret_cast<const RowScalars*>(query_buffer(s) + plan_.scalars);
  }
  __device__ __forceinline__ StateView<Config> state(int s, int warp) const {
    return {shared_ + plan_.merge + (s % 2 * num_warps_ + warp) * plan_.state_bytes};
  }

  // Rows are dealt out to the warps.
  __device__ __forceinline__ void prepare_queries(int s) {
    fetch_segment(s);
    const DecodeSegment& segment = segment_at(s);
    int first_page = 0;
    if (p_.k_first != nullptr && segment.tile_begin == 0 && segment.num_tiles > 0) {
      first_page =
          s == 0 ? record_.pages[0] : p_.block_table[segment.sequence * p_.block_table_stride];
      if (static_cast<uint32_t>(first_page) >= static_cast<uint32_t>(p_.num_pages)) first_page = 0;
    }
    QueryPreparer<Config> preparer(p_, segment, first_page, lane_);
#pragma unroll 1
    for (int row = warp_;; row += num_warps_) {
      if (row < Config::kRows) preparer.load(row);
      // Small reads would come back behind all of the first tiles, were they issued later.
      if (s == 0 && row == warp_) ring_.start_first();
      if (row >= Config::kRows) break;
      preparer.prepare(row, query_buffer(s), plan_);
    }
  }

  __device__ __forceinline__ TileView view_of(const DecodeSegment& segment) const {
    const int length = segment.seqlen_k;
    const QueryRow last_row = query_row(p_, segment, Config::kRows - 1);
    const int first_diagonal = segment.first_position + length - segment.seqlen_q;
    const int last_diagonal =
        min(last_row.position, segment.seqlen_q - 1) + length - segment.seqlen_q;
    TileView view = {0, length, 0, length};
    if (p_.causal != 0) {
      view.some_end = min(length, last_diagonal + 1);
      view.all_end = min(length, first_diagonal + 1);
    }
    if (p_.window_left >= 0) {
      view.some_begin = max(0, first_diagonal - min(p_.window_left, first_diagonal));
      view.all_begin = max(0, last_diagonal - min(p_.window_left, last_diagonal));
    }
    return view;
  }

  __device__ __forceinline__ void attend(const DecodeSegment& segment, int s) {
    const RowScalars* rows = scalars(s);
    QueryFragments<Config> queries;
    queries.load(query_buffer(s), plan_, p_.residual_rank, rows, lane_);
    SoftmaxState<Config> softmax;
    softmax.start(rows, lane_);
    Output<Config> output;
    output.clear();
    const TileView view = view_of(segment);
    const int end = segment.tile_begin + segment.num_tiles;
#pragma unroll 1
    for (int tile = segment.tile_begin + warp_;; tile += num_warps_) {
      ring_.fill();
      if (tile >= end) break;
      attend_tile(tile * kTileTokens, view, rows, queries, softmax, output);
      ring_.release();
    }
    publish(output, softmax, state(s, warp_), lane_);
  }

  __device__ __forceinline__ void attend_tile(int first, const TileView& view,
                                              const RowScalars* rows,
                                              const QueryFragments<Config>& queries,
                                              SoftmaxState<Config>& softmax,
                                              Output<Config>& output) {
    Scores<Config> scores = {};
    const TileSlot slot = ring_.slot_in_use();
    ring_.wait_keys(slot);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      multiply_keys<Config>(scores[half], queries, slot.keys, plan_, half, lane_);
    }
    if (p_.residual_rank > 0) {
      multiply_residual<Config>(scores, queries, slot.keys + plan_.residual, p_.residual_rank,
                                lane_);
    }
    const bool is_whole = view.is_whole(first);
    if (Config::kHasExtra && p_.delta_s != nullptr) {
      add_delta<Config>(scores, slot.keys, plan_, rows, min(p_.group_size, Config::kRows), lane_);
    }
    if (first == 0 && p_.k_first != nullptr) add_first_key<Config>(scores, rows, lane_);
    if (Config::kHasExtra && p_.softcap > 0) cap_scores<Config>(scores, rows, lane_);
    if (!is_whole) mask_scores<Config>(scores, rows, first, lane_);
    softmax.to_exponents(scores, output);
    softmax.exponentiate(scores);
    ring_.wait_values(slot);
    if (!is_whole || !ptx::kConvertsE4m3) {
      clean_values<Config>(output, slot.values, view, rows, first, lane_);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      multiply_values<Config>(output, scores[half], slot.values, half, lane_);
    }
  }

  // A warp a row: the warps' states become the result, or a part's; and by the CTA that comes last,
  // the parts become the result.
  __device__ __forceinline__ void merge(const DecodeSegment& segment, int s) {
    const int rows = min(Config::kRows, segment.seqlen_q * p_.group_size - segment.first_row);
    std::byte* const states = state(s, 0).base;
    StateList<Config> list = {states, states, plan_.state_bytes, num_warps_};
    bool is_result = segment.num_parts == 1;
#pragma unroll 1
    for (;;) {
#pragma unroll 1
      for (int row = warp_; row < rows; row += num_warps_) {
        const auto merged = merge_row<Config>(list, row, lane_);
        if (is_result) {
          store_result<Config>(p_, segment, merged, scalars(s)[row], row, lane_);
        } else {
          store_partial<Config>(merged, partial(slot_of(segment, segment.part)), row, lane_);
        }
      }
      if (is_result || !arrives_last(segment)) break;
      is_result = true;
      list = {partial(segment.first_slot).base, partial(segment.other_slots).base,
              plan_.state_bytes, segment.num_parts};
    }
  }

  __device__ __forceinline__ static int slot_of(const DecodeSegment& segment, int part) {
    return part == 0 ? segment.first_slot : segment.other_slots + part;
  }
  __device__ __forceinline__ StateView<Config> partial(int slot) const {
    return {p_.workspace + p_.layout.partials + int64_t{slot} * plan_.state_bytes};
  }

  // The parts are added up in their order, whoever comes last: results do not depend on it.
  __device__ __forceinline__ bool arrives_last(const DecodeSegment& segment) const {
    auto* is_last = reinterpret_cast<volatile int*>(shared_ + plan_.flag);
    // What the warps have written comes before the barrier, and so before the counter.
    __syncthreads();
    if (threadIdx.x == 0) {
      auto* counter =
          reinterpret_cast<int*>(p_.workspace + p_.layout.counters) + segment.first_slot;
      const int arrived = ptx::add_acquire_release(counter, 1) + 1;
      if (arrived == segment.num_parts) *counter = 0;
      *is_last = arrived == segment.num_parts ? 1 : 0;
    }
    __syncthreads();
    return *is_last != 0;
  }

  const DecodeParams& p_;
  const SharedMemoryPlan& plan_;
  std::byte* shared_;
  const DecodeRecord& record_;
  int warp_;
  int num_warps_;
  int lane_;
  TileRing<Config> ring_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kMaxThreads, 1)
    decode_kernel(const __grid_constant__ DecodeParams params,
                  const __grid_constant__ SharedMemoryPlan plan) {
#if __CUDA_ARCH__ >= 900
  constexpr bool kIsForThisGpu = true;
#else
  constexpr bool kIsForThisGpu = !Config::kIsBulk;
#endif
  if constexpr (!kIsForThisGpu) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const auto& record = reinterpret_cast<const DecodeRecord*>(params.workspace)[blockIdx.x];
  DecodeWarp<Config>(params, plan, shared, record, static_cast<int>(threadIdx.x / 32),
                     static_cast<int>(blockDim.x / 32), static_cast<int>(threadIdx.x % 32))
      .run();
}

}  // namespace mpfa::kernels
