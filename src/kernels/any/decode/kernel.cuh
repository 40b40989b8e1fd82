// Decode attention. A CTA per SM has a list of segments (schedule.cu); its warps share a segment's
// tiles and keep a state each, merged at its end.
// docs/perf/decode-h200.md has the measurements behind the choices.
#pragma once

#include "kernels/any/decode/merge.cuh"
#include "kernels/any/decode/partial.cuh"

namespace mpfa::kernels {

// The work of a warp.
template <class Config>
class DecodeWarp {
 public:
  __device__ DecodeWarp(const DecodeParams& params, const SharedMemoryPlan& plan, std::byte* shared,
                        int warp, int num_warps, int lane)
      : p_(params),
        plan_(plan),
        shared_(shared),
        warp_(warp),
        num_warps_(num_warps),
        lane_(lane),
        ring_(params, plan, ptx::shared_address(shared), warp, num_warps, lane) {}

  // Segment by segment; a round attends to one and prepares the queries of the next.
  __device__ void run() {
    read_record();
    const int num_segments = own().head.num_segments;
    if (num_segments == 0) return;  // the rest of the record means nothing
    ring_.begin(own().head, segment_at(0), first_page_);
    int ahead = 0;  // of the segment after the next, on its way
    if (num_segments > 1) ahead = segment_word(1);
    const int ticket = take_tickets();
#pragma unroll 1
    for (int s = -1; s < num_segments; ++s) {
      if (s >= 0) {
        if (s + 2 < num_segments) ahead = segment_word(s + 2);
        if (s + 1 < num_segments) prefetch_queries(s + 1);
        attend(s);
      }
      if (s + 1 < num_segments) prepare_queries(s + 1);
      if (s < 0) settle_tickets(ticket);
      __syncthreads();
      if (s >= 0) merge(s, s + 1 == num_segments);
      if (s + 2 < num_segments) store_segment(s + 2, ahead);
    }
    if (threadIdx.x == 0) record().head.num_launches = num_launches_ + 1;
  }

 private:
  // ---- segments ----

  __device__ __forceinline__ DecodeRecord& record() const {
    return reinterpret_cast<DecodeRecord*>(p_.workspace)[blockIdx.x];
  }
  __device__ __forceinline__ WarpSegments& own() const {
    return reinterpret_cast<WarpSegments*>(shared_ + plan_.segments)[warp_];
  }
  __device__ __forceinline__ DecodeSegment& segment_at(int s) const {
    return own().segments[s % kSegmentCopies];
  }

  // All that the first copies need is read at once: the record's head and first segment, a word a
  // lane, and its pages.
  __device__ __forceinline__ void read_record() {
    constexpr int kWords = (sizeof(DecodeRecordHead) + sizeof(DecodeSegment)) / 4;
    static_assert(kWords <= 32);
    const int word = reinterpret_cast<const int*>(&record())[min(lane_, kWords - 1)];
    first_page_ = ring_.page_of_record(record());
#if __CUDA_ARCH__ >= 900
    if (Config::kIsBulk && warp_ == 0 && ptx::elect_one()) ptx::prefetch_tensor_map(p_.v_map);
#endif
    ring_.init_barriers();
    if (lane_ < kWords) reinterpret_cast<int*>(&own())[lane_] = word;
    __syncwarp();
    const DecodeSegment& first = segment_at(0);
    num_launches_ = own().head.num_launches;
    first_shared_slot_ = first.num_sharers > 1 ? first.first_slot : -1;
  }

  // A lane's word of a segment.
  static constexpr int kSegmentWords = sizeof(DecodeSegment) / 4;
  __device__ __forceinline__ int segment_word(int s) const {
    const auto* segments =
        reinterpret_cast<const DecodeSegment*>(p_.workspace + p_.layout.segments);
    const DecodeSegment* from = segments + own().head.first_segment + s;
    return reinterpret_cast<const int*>(from)[min(lane_, kSegmentWords - 1)];
  }
  __device__ __forceinline__ void store_segment(int s, int word) const {
    if (lane_ < kSegmentWords) reinterpret_cast<int*>(&segment_at(s))[lane_] = word;
    __syncwarp();
  }

  // ---- queries ----

  // Three, so that a warp may prepare segment s + 2 while another still merges s.
  __device__ __forceinline__ std::byte* query_buffer(int s) const {
    return shared_ + plan_.query + s % 3 * plan_.query_bytes;
  }
  __device__ __forceinline__ const RowScalars* scalars(int s) const {
    return reinterpret_cast<const RowScalars*>(query_buffer(s) + plan_.scalars);
  }

  __device__ __forceinline__ void prefetch_queries(int s) const {
    QueryPreparer<Config>(p_, segment_at(s), lane_).prefetch(warp_);
  }

  // Rows are dealt out to the warps.
  __device__ __forceinline__ void prepare_queries(int s) {
    const DecodeSegment& segment = segment_at(s);
#pragma unroll 1
    for (int row = warp_;; row += num_warps_) {
      QueryPreparer<Config> preparer(p_, segment, lane_);
      if (row < Config::kRows) preparer.load(row);
      // Small reads would come back behind all of the first tiles, were they issued later.
      if (s == 0 && row == warp_) ring_.start_first();
      if (row >= Config::kRows) break;
      preparer.prepare(row, query_buffer(s), plan_);
    }
    if (segment.num_parts > 1) clear_partial(segment);
    if (segment.num_sharers > 1) keep(segment, s);
  }

  // ---- tiles ----

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

  __device__ __forceinline__ void attend(int s) {
    const DecodeSegment& segment = segment_at(s);
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
      multiply_keys<Config>(scores[half], queries, slot.keys, half, lane_);
    }
    if (p_.residual_rank > 0) {
      multiply_residual<Config>(scores, queries, slot.keys + Config::kResidualAt, p_.residual_rank,
                                lane_);
    }
    const bool is_whole = view.is_whole(first);
    if (Config::kHasExtra && p_.delta_s != nullptr) {
      add_delta<Config>(scores, slot.keys, plan_, rows, min(p_.group_size, Config::kRows), lane_);
    }
    if (first == 0 && p_.has_k_first) add_first_key<Config>(scores, rows, lane_);
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

  // ---- merging ----

  __device__ __forceinline__ StateView<Config> state(int s, int warp) const {
    return {shared_ + plan_.merge + ((s & 1) * num_warps_ + warp) * plan_.state_bytes};
  }

  __device__ __forceinline__ std::byte* partial(int64_t slot, int launch) const {
    return partial_state(p_.workspace, p_.layout, slot, launch);
  }
  // For the next launch.
  __device__ __forceinline__ void clear_partial(const DecodeSegment& segment) const {
    clear_partial_state(partial(partial_slot(segment), num_launches_ + 1), plan_.state_bytes,
                        static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  }

  // The first and the last pair of a CTA may have parts in other CTAs. The last CTA that takes up
  // work on a pair will merge it: by then all others have, and so will finish theirs, whatever the
  // order in which blocks start. It merges when its own parts are done, and so no CTA waits before
  // it has written all that others wait for.
  using Pair = SharedPair<Config::kRows>;
  __device__ __forceinline__ Pair& shared_pair(int i) const {
    return reinterpret_cast<Pair*>(shared_ + plan_.shared_pairs)[2 * warp_ + i];
  }
  __device__ __forceinline__ volatile int& is_ours(int i) const {
    return reinterpret_cast<volatile int*>(shared_ + plan_.is_ours)[i];
  }

  __device__ __forceinline__ bool has_tickets() const {
    return warp_ == num_warps_ - 1 && lane_ < 2;
  }
  __device__ __forceinline__ int num_sharers(int i) const {
    return i == 0 ? segment_at(0).num_sharers : own().head.last_sharers;
  }
  __device__ __forceinline__ int* counter(int i) const {
    return reinterpret_cast<int*>(p_.workspace + p_.layout.counters) +
           (i == 0 ? segment_at(0).first_slot : own().head.last_slot);
  }

  // Lane i asks for pair i; nobody waits for the answer yet.
  __device__ __forceinline__ int take_tickets() const {
    if (!has_tickets() || num_sharers(lane_) == 1) return 0;
    return ptx::add_relaxed(counter(lane_), 1);
  }
  __device__ __forceinline__ void settle_tickets(int ticket) const {
    if (!has_tickets()) return;
    const int sharers = num_sharers(lane_);
    const bool is_last = sharers > 1 && ticket == sharers - 1;
    if (is_last) *counter(lane_) = 0;
    is_ours(lane_) = is_last ? 1 : 0;
  }

  // The ends of a segment's rows, among its prepared queries or in a shared pair.
  struct RowEnds {
    const RowEnd* first;
    int stride;  // from one to the next

    __device__ __forceinline__ const RowEnd& operator[](int row) const {
      return first[row * stride];
    }
  };
  // Parts that become a result.
  struct Parts {
    const DecodeSegment* segment;  // any of the pair's
    RowEnds ends;
  };

  // The warps' states become the result, or a part's; and behind the last part that this CTA has of
  // a pair, parts become the result. All in one loop, so that the kernel has merge_parts() once:
  // instructions have to be read from memory.
  __device__ __forceinline__ void merge(int s, bool is_last) const {
    const DecodeSegment& segment = segment_at(s);
    const RowEnds ends = {&scalars(s)->result, sizeof(RowScalars) / sizeof(RowEnd)};
    merge_warps(segment, ends, s);
    // A pair that lies in this CTA alone is complete behind its last part.
    bool is_complete =
        segment.num_parts > 1 && segment.num_sharers == 1 && segment.part + 1 == segment.num_parts;
    int next = is_last ? 0 : 2;
#pragma unroll 1
    for (;;) {
      Parts parts = {&segment, ends};
      if (!is_complete) {
        while (next < 2 && is_ours(next) == 0) ++next;
        if (next >= 2) return;
        const Pair& pair = shared_pair(next++);
        parts = {&pair.segment, {pair.ends, 1}};
      }
      is_complete = false;
      merge_parts(parts);
    }
  }

  // Where a warp prepares a row, it also merges it, so it needs no other's.
  __device__ __forceinline__ void keep(const DecodeSegment& segment, int s) const {
    __syncwarp();
    Pair& pair = shared_pair(segment.first_slot == first_shared_slot_ ? 0 : 1);
    if (lane_ < kSegmentWords) {
      reinterpret_cast<int*>(&pair.segment)[lane_] = reinterpret_cast<const int*>(&segment)[lane_];
    }
    const int row = warp_ + lane_ * num_warps_;
    if (row < Config::kRows) pair.ends[row] = scalars(s)[row].result;
    __syncwarp();
  }

  // A warp a row.
  template <class Function>
  __device__ __forceinline__ void for_each_row(const DecodeSegment& segment,
                                               Function function) const {
    const int rows = min(Config::kRows, segment.seqlen_q * p_.group_size - segment.first_row);
#pragma unroll 1
    for (int row = warp_; row < rows; row += num_warps_) function(row);
  }

  __device__ __forceinline__ void merge_warps(const DecodeSegment& segment, const RowEnds& ends,
                                              int s) const {
    const std::byte* states = state(s, 0).base;
    const StateList list = {states, states, plan_.state_bytes, num_warps_};
    const StateView<Config> part = {partial(partial_slot(segment), num_launches_)};
    for_each_row(segment, [&](int row) {
      const MergedRow merged = merge_row<Writers::kWarps, Config>(list, row, lane_);
      if (segment.num_parts == 1) {
        store_result<Config>(p_, segment, merged, ends[row], row, lane_);
      } else {
        store_partial<Config>(merged, part, row, lane_);
      }
    });
  }

  // The parts are added up in their order, whoever does it: results do not depend on that.
  __device__ __forceinline__ void merge_parts(const Parts& parts) const {
    const DecodeSegment& segment = *parts.segment;
    const StateList list = {partial(segment.first_slot, num_launches_),
                            partial(segment.other_slots, num_launches_), plan_.state_bytes,
                            segment.num_parts};
    for_each_row(segment, [&](int row) {
      const MergedRow merged = merge_row<Writers::kCtas, Config>(list, row, lane_);
      store_result<Config>(p_, segment, merged, parts.ends[row], row, lane_);
    });
  }

  const DecodeParams& p_;
  const SharedMemoryPlan& plan_;
  std::byte* shared_;
  int first_page_ = 0;          // for TileRing::begin()
  int num_launches_ = 0;        // of this schedule, before this one
  int first_shared_slot_ = -1;  // DecodeSegment::first_slot of the first pair, if it is shared
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
  // The compiler cannot know otherwise that it is the same for the whole warp.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  DecodeWarp<Config>(params, plan, shared, warp, static_cast<int>(blockDim.x / 32),
                     static_cast<int>(threadIdx.x % 32))
      .run();
}

}  // namespace mpfa::kernels
