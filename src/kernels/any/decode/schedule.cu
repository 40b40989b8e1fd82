// Cuts the keys of all pairs into parts for a fixed number of CTAs (docs/perf/decode-h200.md says
// why so). Every CTA finds its own parts from the lengths, so the kernel is one short pass,
// whatever the batch. Nothing is decided on the host: it may be captured in a CUDA graph and
// follows the lengths that it then finds.
#include "kernels/any/decode/partial.cuh"
#include "kernels/any/decode/schedule.h"
#include "kernels/any/decode/sequence.cuh"

namespace mpfa::kernels {
namespace {

// What a part costs beside its tiles, in tiles: preparing Q, merging the warps' states.
constexpr int kPartCost = 12;

struct Sequence : StepSequence {
  int32_t tile_begin = 0;
  int32_t num_tiles = 0;
  int32_t row_tiles = 0;
};

__device__ Sequence read_sequence(const ScheduleParams& p, int b) {
  Sequence s;
  static_cast<StepSequence&>(s) = read_step_sequence(p, b);
  s.row_tiles = ceil_div(s.seqlen_q * p.group_size, p.rows_per_tile);
  // Keys that some row sees (docs/spec.md, section 3).
  const int32_t diagonal = s.seqlen_k - s.seqlen_q;  // of query 0
  const bool is_cut = p.window_left >= 0 && p.window_left < diagonal;
  const int32_t begin = is_cut ? diagonal - p.window_left : 0;
  if (s.seqlen_q > 0 && begin < s.seqlen_k) {
    s.tile_begin = begin / kTileTokens;
    s.num_tiles = ceil_div(s.seqlen_k, kTileTokens) - s.tile_begin;
  }
  return s;
}

// How the work is cut.
struct Cut {
  // > 0: every pair is cut into equal parts of at most so many tiles, and CTAs take equal numbers
  // of parts. 0: CTAs take equal ranges of tiles, kPartCost added to each pair, that cross pairs.
  int32_t part_tiles = 0;
  int64_t total = 0;  // of measure() over all sequences
};

__device__ int32_t parts_of_pair(const Sequence& s, int32_t part_tiles) {
  return max(1, ceil_div(s.num_tiles, part_tiles));
}

__device__ int64_t measure_of_pair(const Sequence& s, int32_t part_tiles) {
  return part_tiles > 0 ? parts_of_pair(s, part_tiles) : s.num_tiles + kPartCost;
}

// A place in the list of all pairs, in order of sequences: the sequence that has it, and what lies
// before that.
struct Found {
  int32_t sequence;
  int32_t pairs_before;
  int64_t measure_before;
};

template <int kWarps>
struct Shared {
  int64_t measures[kWarps];
  int64_t pairs[kWarps];
  Found found[2];
};

// One CTA's share, by kWarps warps.
template <int kWarps>
class Scheduler {
 public:
  __device__ Scheduler(const ScheduleParams& params, Shared<kWarps>& shared)
      : p_(params), shared_(shared), record_(record_of(params)) {
    if (static_cast<int>(threadIdx.x) < p_.batch_size) own_ = read_sequence(p_, threadIdx.x);
  }

  __device__ void run() {
    clear_counters();
    choose_cut();
    const int64_t ctas = p_.layout.num_ctas;
    const int64_t begin = blockIdx.x * cut_.total / ctas;
    const int64_t end = (blockIdx.x + 1) * cut_.total / ctas;
    if (begin == end) {
      if (threadIdx.x == 0) record_.head.num_segments = 0;
      if (blockIdx.x == 0) count_errors();
      return;
    }
    find(begin, end - 1);
    if (cut_.part_tiles > 0) {
      take_parts(begin, end);
    } else {
      take_range(begin, end);
    }
    sync();
    write_pages();
    clear_partials();
    if (blockIdx.x == 0) count_errors();
  }

 private:
  static constexpr int kThreads = 32 * kWarps;

  __device__ static void sync() {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  __device__ static DecodeRecord& record_of(const ScheduleParams& p) {
    return reinterpret_cast<DecodeRecord*>(p.workspace)[blockIdx.x];
  }

  __device__ Sequence sequence(int b) const {
    return b == static_cast<int>(threadIdx.x) ? own_ : read_sequence(p_, b);
  }

  __device__ void clear_counters() {
    auto* counters = reinterpret_cast<int32_t*>(p_.workspace + p_.layout.counters);
    const int stride = static_cast<int>(gridDim.x) * kThreads;
    for (int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
         i < p_.layout.num_slots; i += stride) {
      counters[i] = 0;
    }
  }

  __device__ int64_t pairs_of(const Sequence& s) const {
    return int64_t{p_.num_kv_heads} * s.row_tiles;
  }

  struct Sums {
    int64_t a;
    int64_t b;
  };

  // Over all threads.
  __device__ Sums sum_of_all(Sums own) {
    for (int step = 16; step > 0; step /= 2) {
      own.a += __shfl_xor_sync(~0u, own.a, step);
      own.b += __shfl_xor_sync(~0u, own.b, step);
    }
    if constexpr (kWarps == 1) return own;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      shared_.measures[threadIdx.x / 32] = own.a;
      shared_.pairs[threadIdx.x / 32] = own.b;
    }
    __syncthreads();
    Sums all = {0, 0};
    for (int w = 0; w < kWarps; ++w) {
      all.a += shared_.measures[w];
      all.b += shared_.pairs[w];
    }
    return all;
  }

  __device__ int64_t total_measure(int32_t part_tiles) {
    int64_t sum = 0;
    for (int b = threadIdx.x; b < p_.batch_size; b += kThreads) {
      const Sequence s = sequence(b);
      sum += pairs_of(s) * measure_of_pair(s, part_tiles);
    }
    return sum_of_all({sum, 0}).a;
  }

  // Few pairs: each gets CTAs of its own, and the largest part is as small as can be. Many: ranges.
  __device__ void choose_cut() {
    Sums own = {0, 0};  // tiles, pairs
    for (int b = threadIdx.x; b < p_.batch_size; b += kThreads) {
      const Sequence s = sequence(b);
      own.a += pairs_of(s) * s.num_tiles;
      own.b += pairs_of(s);
    }
    const Sums sums = sum_of_all(own);
    const int64_t tiles = sums.a;
    const int64_t pairs = sums.b;
    // Rows of q that several sequences claim: there may be no room for their work.
    if (pairs > p_.layout.max_pairs) {
      if (blockIdx.x == 0 && threadIdx.x == 0 && p_.error_count != nullptr) {
        atomicAdd(p_.error_count, 1);
      }
      return;
    }
    const int64_t ctas = p_.layout.num_ctas;
    if (p_.split_tiles > 0) {
      cut_.part_tiles = p_.split_tiles;
    } else if (pairs <= ctas) {
      cut_.part_tiles = largest_part(tiles, pairs);
      // Ranges give every CTA the same, but most of them one part more.
      const int64_t in_range = (tiles + pairs * kPartCost + ctas - 1) / ctas + kPartCost;
      if (in_range < cut_.part_tiles) cut_.part_tiles = 0;
    }
    cut_.total = total_measure(cut_.part_tiles);
  }

  // Tiles of the largest part if every pair is cut into equal parts and there is a CTA for each.
  __device__ int32_t largest_part(int64_t tiles, int64_t pairs) {
    const int64_t ctas = p_.layout.num_ctas;
    // At least as many tiles as if all parts were full; no more than if each pair had one that is
    // empty beside.
    auto low = static_cast<int32_t>(max((tiles + ctas - 1) / ctas, int64_t{1}));
    const int64_t spare = max(ctas - pairs, int64_t{1});
    const int64_t most = p_.max_seqlen_k / kTileTokens + 1;
    auto high = static_cast<int32_t>(
        max(pairs < ctas ? min((tiles + spare - 1) / spare, most) : most, int64_t{low}));
    while (low < high) {
      const int32_t middle = low + (high - low) / 2;
      if (total_measure(middle) <= ctas) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Finds the sequences that have the places `first` and `last`.
  __device__ void find(int64_t first, int64_t last) {
    Found before = {0, 0, 0};
    for (; before.sequence < p_.batch_size; before.sequence += kThreads) {
      const int b = before.sequence + static_cast<int>(threadIdx.x);
      Sequence s;
      if (b < p_.batch_size) s = sequence(b);
      const auto own_pairs = static_cast<int32_t>(pairs_of(s));
      const int64_t own = own_pairs * measure_of_pair(s, cut_.part_tiles);
      int64_t measure = own;  // of this warp's sequences up to this one
      int32_t pairs = own_pairs;
      const int lane = static_cast<int>(threadIdx.x % 32);
      const int warp = static_cast<int>(threadIdx.x / 32);
      for (int step = 1; step < 32; step *= 2) {
        const int64_t other_measure = __shfl_up_sync(~0u, measure, step);
        const int32_t other_pairs = __shfl_up_sync(~0u, pairs, step);
        if (lane >= step) {
          measure += other_measure;
          pairs += other_pairs;
        }
      }
      sync();
      if (lane == 31) {
        shared_.measures[warp] = measure;
        shared_.pairs[warp] = pairs;
      }
      sync();
      int64_t start = before.measure_before + measure - own;
      int32_t pairs_start = before.pairs_before + pairs - own_pairs;
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) {
          start += shared_.measures[w];
          pairs_start += shared_.pairs[w];
        }
        before.measure_before += shared_.measures[w];
        before.pairs_before += shared_.pairs[w];
      }
      if (start <= first && first < start + own) shared_.found[0] = {b, pairs_start, start};
      if (start <= last && last < start + own) shared_.found[1] = {b, pairs_start, start};
    }
    sync();
  }

  __device__ DecodeSegment segment(int32_t b, const Sequence& s, int32_t pair) const {
    return segment_of_rows(p_, b, s, pair / s.row_tiles, pair % s.row_tiles * p_.rows_per_tile);
  }

  // Tile number `at` of the pair's own, counted from tile_begin.
  __device__ static void set_tiles(DecodeSegment& segment, const Sequence& s, int32_t begin,
                                   int32_t end) {
    segment.tile_begin = s.tile_begin + begin;
    segment.num_tiles = end - begin;
  }

  __device__ DecodeSegment* segments() const {
    return reinterpret_cast<DecodeSegment*>(p_.workspace + p_.layout.segments);
  }

  __device__ void put(int32_t first, int32_t index, const DecodeSegment& segment) {
    segments()[first + index] = segment;
    if (index == 0) record_.segment = segment;
  }

  __device__ void put_counts(int32_t first, int32_t count) {
    record_.head.first_segment = first;
    record_.head.num_segments = count;
    record_.head.num_launches = 0;
  }

  // Parts [begin, end) of all: a thread each.
  __device__ void take_parts(int64_t begin, int64_t end) {
    const auto count = static_cast<int32_t>(end - begin);
    if (threadIdx.x == 0) put_counts(static_cast<int32_t>(begin), count);
    for (int32_t i = threadIdx.x; i < count; i += kThreads) {
      const int64_t place = begin + i;
      Found at = shared_.found[0];
      Sequence s = read_sequence(p_, at.sequence);
      for (;;) {
        const int64_t size = pairs_of(s) * parts_of_pair(s, cut_.part_tiles);
        if (place < at.measure_before + size) break;
        at.measure_before += size;
        s = read_sequence(p_, ++at.sequence);
      }
      const int32_t parts = parts_of_pair(s, cut_.part_tiles);
      const auto within = static_cast<int32_t>(place - at.measure_before);
      DecodeSegment taken = segment(at.sequence, s, within / parts);
      taken.part = within % parts;
      taken.num_parts = parts;
      taken.first_slot = static_cast<int32_t>(place) - taken.part;
      taken.other_slots = taken.first_slot;
      taken.num_sharers = sharers_of(taken.first_slot, parts);
      const int64_t tiles = s.num_tiles;
      set_tiles(taken, s, static_cast<int32_t>(taken.part * tiles / parts),
                static_cast<int32_t>((taken.part + 1) * tiles / parts));
      put(static_cast<int32_t>(begin), i, taken);
    }
  }

  // The CTA whose range has a place.
  __device__ int32_t cta_at(int64_t place) const {
    return static_cast<int32_t>(((place + 1) * p_.layout.num_ctas - 1) / cut_.total);
  }

  // CTAs that have the places [first, first + count).
  __device__ int32_t sharers_of(int64_t first, int32_t count) const {
    // Fewer parts than CTAs: none has two.
    if (cut_.total < p_.layout.num_ctas) return count;
    return cta_at(first + count - 1) - cta_at(first) + 1;
  }

  // The pairs of the range [begin, end), one after the other. The CTAs that a pair's places belong
  // to have its parts; a part at its begin or end that is smaller than what it costs is left to the
  // neighbour.
  __device__ void take_range(int64_t begin, int64_t end) {
    if (threadIdx.x != 0) return;
    const auto cta = static_cast<int32_t>(blockIdx.x);
    Found at = shared_.found[0];
    const int64_t first_pair_size = read_sequence(p_, at.sequence).num_tiles + kPartCost;
    // Each pair has one segment in each CTA that takes part, so these places differ.
    const int64_t first =
        at.pairs_before + (begin - at.measure_before) / first_pair_size + blockIdx.x;
    int32_t count = 0;
    for (; at.sequence < p_.batch_size && at.measure_before < end; ++at.sequence) {
      const Sequence s = read_sequence(p_, at.sequence);
      const int64_t size = s.num_tiles + kPartCost;
      int64_t pair = begin > at.measure_before ? (begin - at.measure_before) / size : 0;
      for (; pair < pairs_of(s) && at.measure_before + pair * size < end; ++pair) {
        const int64_t pair_begin = at.measure_before + pair * size;
        int32_t first_cta = cta_at(pair_begin);
        int32_t last_cta = cta_at(pair_begin + size - 1);
        if (first_cta < last_cta && first_tile(first_cta + 1, pair_begin, s) < kPartCost) {
          ++first_cta;
        }
        if (first_cta < last_cta && s.num_tiles - first_tile(last_cta, pair_begin, s) < kPartCost) {
          --last_cta;
        }
        if (cta < first_cta || cta > last_cta) continue;
        DecodeSegment taken = segment(at.sequence, s, static_cast<int32_t>(pair));
        taken.part = cta - first_cta;
        taken.num_parts = last_cta - first_cta + 1;
        taken.num_sharers = taken.num_parts;
        taken.first_slot = p_.layout.num_ctas + first_cta;
        taken.other_slots = first_cta;
        const int32_t begin_tile = cta == first_cta ? 0 : first_tile(cta, pair_begin, s);
        const int32_t end_tile = cta == last_cta ? s.num_tiles : first_tile(cta + 1, pair_begin, s);
        set_tiles(taken, s, begin_tile, end_tile);
        put(static_cast<int32_t>(first), count++, taken);
      }
      at.measure_before += pairs_of(s) * size;
    }
    put_counts(static_cast<int32_t>(first), count);
  }

  // Where the range of `cta`, which begins inside a pair, begins among its tiles.
  __device__ int32_t first_tile(int32_t cta, int64_t pair_begin, const Sequence& s) const {
    const int64_t place = cta * cut_.total / p_.layout.num_ctas - pair_begin - kPartCost;
    return static_cast<int32_t>(min(max(place, int64_t{0}), int64_t{s.num_tiles}));
  }

  // Pages of the first tiles of the first segment, and the first page of every sequence.
  __device__ void write_pages() {
    if (record_.head.num_segments == 0) return;
    const DecodeSegment& segment = record_.segment;
    const int per_tile = p_.page_size < kTileTokens ? kTileTokens / p_.page_size : 1;
    for (int i = threadIdx.x; i < kRecordPages; i += kThreads) {
      const int tile = i / per_tile;
      if (tile >= segment.num_tiles) continue;
      const int token = (segment.tile_begin + tile) * kTileTokens + i % per_tile * p_.page_size;
      record_.pages[i] = page_of(segment, token);
    }
    for (int i = threadIdx.x; i < record_.head.num_segments; i += kThreads) {
      DecodeSegment& other = segments()[record_.head.first_segment + i];
      if (other.tile_begin > 0 || other.num_tiles == 0) continue;
      other.first_page = page_of(other, 0);
      if (i == 0) record_.segment.first_page = other.first_page;
    }
  }

  __device__ int32_t page_of(const DecodeSegment& segment, int token) const {
    const int column = min(token, segment.seqlen_k - 1) / p_.page_size;
    return p_.block_table[segment.sequence * p_.block_table_stride +
                          column * p_.block_table_inner_stride];
  }

  __device__ static bool are_of_one_pair(const DecodeSegment& a, const DecodeSegment& b) {
    return a.sequence == b.sequence && a.kv_head == b.kv_head && a.first_row == b.first_row;
  }

  // Partial states of this CTA, in both halves: kernel.cuh waits for words to be written.
  __device__ void clear_partials() {
    const int count = record_.head.num_segments;
    if (count == 0) return;
    const DecodeSegment& last = segments()[record_.head.first_segment + count - 1];
    if (threadIdx.x == 0) {
      const bool is_other = !are_of_one_pair(last, record_.segment);
      record_.head.last_sharers = is_other ? last.num_sharers : 1;
      record_.head.last_slot = last.first_slot;
    }
    for (int i = 0; i < count; ++i) {
      const DecodeSegment& segment = segments()[record_.head.first_segment + i];
      if (segment.num_parts == 1) continue;
      for (int half = 0; half < 2; ++half) {
        clear_partial_state(partial_state(p_.workspace, p_.layout, partial_slot(segment), half),
                            p_.layout.state_bytes, static_cast<int>(threadIdx.x), kThreads);
      }
    }
  }

  __device__ void count_errors() {
    if (p_.error_count == nullptr) return;
    for (int b = threadIdx.x; b < p_.batch_size; b += kThreads) {
      count_if_wrong(p_, sequence(b), b);
    }
  }

  const ScheduleParams& p_;
  Shared<kWarps>& shared_;
  DecodeRecord& record_;
  Sequence own_;
  Cut cut_;
};

template <int kWarps>
__global__ void __launch_bounds__(32 * kWarps)
    schedule_kernel(const __grid_constant__ ScheduleParams p) {
  __shared__ Shared<kWarps> shared;
  Scheduler<kWarps>(p, shared).run();
}

}  // namespace

cudaError_t launch_schedule(const ScheduleParams& params, cudaStream_t stream) {
  // A warp needs no barrier, and most batches no more.
  if (params.batch_size <= 64) {
    schedule_kernel<1><<<params.layout.num_ctas, 32, 0, stream>>>(params);
  } else {
    schedule_kernel<8><<<params.layout.num_ctas, 256, 0, stream>>>(params);
  }
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
