// Cuts the keys of all pairs into pieces for a fixed number of CTAs (docs/perf/decode-h200.md says
// why so). Every CTA finds its own pieces from the lengths, so the kernel is one short pass,
// whatever the batch. Nothing is decided on the host: it may be captured in a CUDA graph and
// follows the lengths that it then finds.
//
// Most of its time goes into instructions that follow each other: one warp plans, with as few of
// them as may be, while the others do all that needs no plan.
#include <algorithm>

#include "kernels/any/decode/partial.cuh"
#include "kernels/any/decode/planner.cuh"
#include "kernels/any/decode/schedule.h"
#include "kernels/ptx/prefetch.cuh"

namespace mpfa::kernels {
namespace {

using schedule::kKept;
using schedule::Planner;
using schedule::Shared;
using schedule::Tiles;

constexpr int kHelpers = kRecordPages;  // threads that do not plan: a page of the record each
constexpr int kThreads = 32 + kHelpers;

// What the other warps do.
template <class Work>
class Helper {
 public:
  __device__ Helper(const ScheduleParams& params, const Shared<Work>& shared)
      : p_(params), shared_(shared), thread_(static_cast<int>(threadIdx.x) - 32) {}

  // While there is no plan.
  __device__ void prepare() const {
    prefetch_pages();
    clear_counters();
    if (p_.split_tiles == 0) {
      // However the work is cut, there are no others.
      clear_states(static_cast<int32_t>(blockIdx.x));
      clear_states(p_.layout.num_ctas + static_cast<int32_t>(blockIdx.x));
    }
    if (blockIdx.x == 0 && p_.error_count != nullptr) count_errors();
  }

  // When there is one.
  __device__ void finish() const {
    if (shared_.num_pieces > 0) write_page();
    for (int i = 0; i < shared_.num_states; ++i) clear_states(shared_.first_state + i);
  }

 private:
  // Those of the sequence that this CTA would have if all were equally long.
  __device__ void prefetch_pages() const {
    constexpr int kEntries = 32;  // of a line of the cache
    if (thread_ * kEntries >= p_.max_pages || p_.batch_size == 0) return;
    const uint32_t sequence = blockIdx.x * static_cast<uint32_t>(p_.batch_size) / gridDim.x;
    ptx::prefetch_l2(p_.block_table + sequence * p_.block_table_stride +
                     thread_ * kEntries * p_.block_table_inner_stride);
  }

  __device__ void clear_counters() const {
    auto* counters = reinterpret_cast<int32_t*>(p_.workspace + p_.layout.counters);
    const int stride = static_cast<int>(gridDim.x) * kHelpers;
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x) * kHelpers + thread_; i < p_.layout.num_slots;
         i += stride) {
      counters[i] = 0;
    }
  }

  // In both halves: kernel.cuh waits for words to be written.
  __device__ void clear_states(int32_t slot) const {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      clear_partial_state(partial_state(p_.workspace, p_.layout, slot, half), p_.layout.state_bytes,
                          thread_, kHelpers);
    }
  }

  __device__ void count_errors() const {
#pragma unroll 1
    for (int b = thread_; b < p_.batch_size; b += kHelpers) {
      count_if_wrong(p_, read_step_sequence(p_, b), b);
    }
  }

  // One of those of the first tiles.
  __device__ void write_page() const {
    const Tiles& tiles = shared_.first;
    const int halves = p_.page_size < kTileTokens ? 1 : 0;  // a tile has two pages, or part of one
    const int tile = thread_ >> halves;
    if (tile >= tiles.count) return;
    const int32_t token = (tiles.begin + tile) * kTileTokens + (thread_ & halves) * p_.page_size;
    schedule::record_of(p_).pages[thread_] = schedule::page_of(p_, tiles, token);
  }

  const ScheduleParams& p_;
  const Shared<Work>& shared_;
  int thread_;
};

template <class Work>
__global__ void __launch_bounds__(kThreads)
    schedule_kernel(const __grid_constant__ ScheduleParams p) {
  __shared__ Shared<Work> shared;
  Planner<Work> planner(p, shared);
  const Helper<Work> helper(p, shared);
#pragma unroll 1
  for (int b = static_cast<int>(threadIdx.x); b < min(p.batch_size, kKept); b += kThreads) {
    shared.sequences[b] = schedule::read_sequence(p, b);
  }
  __syncthreads();
  const bool is_planner = threadIdx.x < 32;
  if (is_planner) {
    planner.plan();
  } else {
    helper.prepare();
  }
  __syncthreads();
  if (is_planner) {
    planner.write();
  } else {
    helper.finish();
  }
}

// Whether Planner<int32_t> will do, whatever the device finds.
bool is_small(const ScheduleParams& p) {
  const double tiles = p.max_seqlen_k / kTileTokens + 2;
  const double rows = static_cast<double>(std::max(p.max_seqlen_q, 1)) * p.group_size;
  const double pairs = p.batch_size * (rows / p.rows_per_tile + 1) * p.num_kv_heads;
  const double work = pairs * (tiles + schedule::kPieceCost);
  return p.batch_size <= kKept && (work + 1) * p.layout.num_ctas < 0x1p31 && tiles * tiles < 0x1p31;
}

}  // namespace

cudaError_t launch_schedule(const ScheduleParams& params, cudaStream_t stream) {
  const auto kernel = is_small(params) ? schedule_kernel<int32_t> : schedule_kernel<int64_t>;
  kernel<<<params.layout.num_ctas, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

DecodeWorkspace layout_workspace(int num_ctas, int64_t max_pairs, int64_t max_parts,
                                 int rows_per_tile, int head_dim) {
  const auto align = [](int64_t x) { return (x + 255) / 256 * 256; };
  DecodeWorkspace layout;
  layout.num_ctas = num_ctas;
  layout.max_pairs = static_cast<int32_t>(max_pairs);
  const int64_t ranges = max_pairs + num_ctas;
  const int64_t max_segments = max_parts > ranges ? max_parts : ranges;
  layout.num_slots = static_cast<int32_t>(max_parts > 2 * num_ctas ? max_parts : 2 * num_ctas);
  layout.segments = align(int64_t{num_ctas} * static_cast<int64_t>(sizeof(DecodeRecord)));
  layout.counters =
      align(layout.segments + max_segments * static_cast<int64_t>(sizeof(DecodeSegment)));
  layout.partials = align(layout.counters + int64_t{layout.num_slots} * 4);
  layout.state_bytes = rows_per_tile * partial_row_bytes(head_dim);
  layout.total_bytes = align(layout.partials + 2 * int64_t{layout.num_slots} * layout.state_bytes);
  return layout;
}

}  // namespace mpfa::kernels
