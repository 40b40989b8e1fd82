// Attention for long queries on sm_90a: a CTA has a tile of query rows of one sequence and KV head
// (a group's heads side by side). One warpgroup brings tiles of unpacked keys and values by the
// copy engine, last tile first; two attend, with wgmma: scores in FP32, probabilities in e4m3.
#pragma once

#include "kernels/any/decode/denominator.cuh"
#include "kernels/any/prefill/output.cuh"
#include "kernels/any/prefill/sequence.cuh"
#include "kernels/any/prefill/tile.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/sm90/prefill/config.h"
#include "kernels/sm90/prefill/softmax.cuh"
#include "kernels/sm90/prefill/tiles.cuh"

namespace mpfa::kernels::sm90 {

// Where a tile's keys, or its values, come to lie, and the barriers: it is there, it is used up.
struct Slot {
  uint32_t operand;
  uint32_t full;
  uint32_t empty;
  uint32_t parity;  // of the phases that this tile ends
};

template <class Config>
__device__ __forceinline__ Slot slot_of(uint32_t shared, int number, int operands, int bytes,
                                        int barriers) {
  const int stage = number % Config::kStages;
  const uint32_t barrier = shared + Config::kBarriers + (barriers + stage) * 16;
  return {shared + operands + stage * bytes, barrier, barrier + 8,
          static_cast<uint32_t>(number / Config::kStages & 1)};
}
// Of tile number `number` that a CTA takes.
template <class Config>
__device__ __forceinline__ Slot key_slot(uint32_t shared, int number) {
  return slot_of<Config>(shared, number, Config::kKeyTiles, Config::kKeyTileBytes, 0);
}
template <class Config>
__device__ __forceinline__ Slot value_slot(uint32_t shared, int number) {
  return slot_of<Config>(shared, number, Config::kValueTiles, Config::kValueTileBytes,
                         Config::kStages);
}

__device__ __forceinline__ std::byte* shared_memory() {
  extern __shared__ __align__(1024) std::byte shared[];
  return shared;
}

template <class Config>
class Producer {
 public:
  __device__ Producer(const Sm90PrefillParams& params, const DecodeSegment& segment,
                      uint32_t shared, int first_place)
      : params_(params),
        head_(segment.kv_head - params.first_head),
        shared_(shared),
        first_place_(first_place) {}

  // By one thread: tiles [first, end), last first.
  __device__ void run(int first, int end) const {
#pragma unroll 1
    for (int number = 0; number < end - first; ++number) {
      const int place = first_place_ + (end - 1 - number) * Config::kKeys;
      copy_keys(key_slot<Config>(shared_, number), number, place);
      copy_values(value_slot<Config>(shared_, number), number, place);
    }
  }

 private:
  __device__ void take(const Slot& slot, int number, int bytes) const {
    if (number >= Config::kStages) ptx::barrier_wait(slot.empty, slot.parity ^ 1);
    ptx::barrier_expect(slot.full, bytes);
  }

  __device__ void copy_keys(const Slot& slot, int number, int place) const {
    take(slot, number,
         Config::kBoxes * Config::kBox + (Config::kHasResidual ? Config::kNarrow : 0));
#pragma unroll
    for (int box = 0; box < Config::kBoxes; ++box) {
      ptx::tensor_copy(slot.operand + box * Config::kBox, params_.keys_map, box * 64, place, head_,
                       slot.full);
    }
    if constexpr (Config::kHasResidual) {
      ptx::tensor_copy(slot.operand + Config::kResidualsOfTile, params_.residuals_map, 0, place,
                       head_, slot.full);
    }
  }

  __device__ void copy_values(const Slot& slot, int number, int place) const {
    take(slot, number, Config::kHeadDim * Config::kKeys);
    ptx::tensor_copy(slot.operand, params_.values_map, place, 0, head_, slot.full);
  }

  const Sm90PrefillParams& params_;
  int head_;
  uint32_t shared_;
  int first_place_;
};

// What a consumer's thread finds in shared memory, anew wherever it is needed: registers are few.
template <class Config>
struct ConsumerPart {
  __device__ __forceinline__ static const PrefillView<Config>& view() {
    return *reinterpret_cast<const PrefillView<Config>*>(shared_memory() + Config::kView);
  }
  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ static int lane() { return thread() % 32; }
  __device__ __forceinline__ static int warp_row() { return thread() / 32 * 16 - 64; }

  // Rows g and g + 8 of the warp's are this thread's.
  __device__ __forceinline__ static const RowScalars* rows() {
    return reinterpret_cast<const RowScalars*>(shared_memory() + Config::kScalars) + warp_row();
  }

  __device__ __forceinline__ static const DecodeSegment& segment() {
    return *reinterpret_cast<const DecodeSegment*>(shared_memory() + Config::kSegment);
  }
  // Of the sequence's tokens among those of all.
  __device__ __forceinline__ static int first_place() {
    return *reinterpret_cast<const int*>(shared_memory() + Config::kSegment +
                                         sizeof(DecodeSegment));
  }
  // A piece of one of the warp's rows.
  __device__ __forceinline__ static uint32_t* chunk_of(int row, int chunk) {
    return reinterpret_cast<uint32_t*>(shared_memory() +
                                       Config::query_chunk(warp_row() + row, chunk));
  }
};

// Lanes share the dims of a key whose values have a NaN.
template <class Config>
__device__ void add_nan_of_key(const DecodeParams& p, int key) {
  using Own = ConsumerPart<Config>;
  const DecodeSegment& segment = Own::segment();
  const int page = p.block_table[steps(segment.sequence, p.block_table_stride) +
                                 steps(key >> p.page_shift, p.block_table_inner_stride)];
  const bool is_page = static_cast<uint32_t>(page) < static_cast<uint32_t>(p.num_pages);
  const std::byte* values = p.v + steps(is_page ? page : 0, p.v_strides.page) +
                            steps(segment.kv_head, p.v_strides.head) +
                            steps(key & ((1 << p.page_shift) - 1), p.v_strides.token);
  for (int dim = Own::lane(); dim < Config::kHeadDim; dim += 32) {
    if (ptx::find_e4m3_nan(static_cast<uint32_t>(values[dim])) == 0) continue;
    for (int row = 0; row < 16; ++row) {
      if (key < Own::rows()[row].begin || key >= Own::rows()[row].end) continue;
      reinterpret_cast<uint16_t*>(Own::chunk_of(row, dim / 8))[dim % 8] = 0x7FFF;
    }
  }
}

// Tiles that rows of the CTA see and that have a NaN among their values, which was taken for 0: it
// becomes the result of the warp's rows that see it.
template <class Config>
__device__ __noinline__ void add_nan_values(const Sm90PrefillParams& params) {
  using Own = ConsumerPart<Config>;
  const DecodeSegment& segment = Own::segment();
  const uint32_t* has_nan =
      params.cache.has_nan +
      steps(segment.kv_head - params.first_head, params.cache.capacity / kTileKeys) +
      Own::first_place() / kTileKeys;
  for (int tile = Own::view().first_tile(); tile < Own::view().end_tile(); ++tile) {
    if (has_nan[tile] == 0) continue;
    const int end = min((tile + 1) * kTileKeys, segment.seqlen_k);
    for (int key = tile * kTileKeys; key < end; ++key) {
      add_nan_of_key<Config>(params.common.attention, key);
    }
  }
  __syncwarp();
}

// A warpgroup: 64 of the CTA's rows.
template <class Config>
class Consumer {
 public:
  __device__ explicit Consumer(const Sm90PrefillParams& params)
      : params_(params),
        p_(params.common.attention),
        address_(ptx::shared_address(shared_memory())) {}

  // While the tensor cores multiply a tile's keys and the tile's before values, nothing else can
  // use them; while they multiply the values, this warpgroup takes exponents of the new scores.
  __device__ void run() {
    const int first = view().first_tile();
    const int count = view().end_tile() - first;
    softmax_.start(rows(), lane());
#pragma unroll
    for (float& sum : output_) sum = 0.0f;
    if (count > 0) {
      float scores[64];
      uint32_t probabilities[4][4];
      start_keys(0, scores);
      ptx::wgmma_wait<0>();
      free(key_slot<Config>(address_, 0));
      prepare_scores(first + count - 1, scores);
      float factor[2];
      softmax_.move_reference(scores, factor);
      softmax_.exponentiate(scores);
      softmax_.to_operand(scores, probabilities);
#pragma unroll 1
      for (int number = 1; number < count; ++number) {
        float sums[Config::kSums];
        start_keys(number, scores);
        start_values(number - 1, probabilities, sums);
        ptx::wgmma_wait<1>();
        free(key_slot<Config>(address_, number));
        prepare_scores(first + count - 1 - number, scores);
        float factor[2];
        if (softmax_.move_reference(scores, factor)) {
          ptx::wgmma_wait<0>();
          rescale(output_, factor);
          rescale(sums, factor);
        }
        softmax_.exponentiate(scores);
        ptx::wgmma_wait<0>();
        free(value_slot<Config>(address_, number - 1));
        add(sums);
        softmax_.to_operand(scores, probabilities);
      }
      float sums[Config::kSums];
      ptx::wgmma_fence();
      start_values(count - 1, probabilities, sums);
      ptx::wgmma_wait<0>();
      add(sums);
    }
    store();
  }

 private:
  using Own = ConsumerPart<Config>;
  __device__ __forceinline__ static const PrefillView<Config>& view() { return Own::view(); }
  __device__ __forceinline__ static int thread() { return Own::thread(); }
  __device__ __forceinline__ static int lane() { return Own::lane(); }
  __device__ __forceinline__ static int warp_row() { return Own::warp_row(); }
  __device__ __forceinline__ static const RowScalars* rows() { return Own::rows(); }
  __device__ __forceinline__ static const DecodeSegment& segment() { return Own::segment(); }
  __device__ __forceinline__ static uint32_t* chunk_of(int row, int chunk) {
    return Own::chunk_of(row, chunk);
  }

  __device__ __forceinline__ void free(const Slot& slot) const {
    if (thread() % 128 == 0) ptx::barrier_arrive(slot.empty);
  }

  __device__ __forceinline__ void start_keys(int number, float (&scores)[64]) const {
    const Slot slot = key_slot<Config>(address_, number);
    ptx::barrier_wait(slot.full, slot.parity);
    const int group = thread() / 128 - 1;
    const uint32_t queries = address_ + Config::kQueries + 64 * 128 * group;
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < Config::kSteps; ++step) {
      const int at = step / 4 * Config::kBox + step % 4 * 32;
      ptx::wgmma_f16(scores, ptx::matrix_descriptor(queries + at, ptx::Swizzle::k128, 1024),
                     ptx::matrix_descriptor(slot.operand + at, ptx::Swizzle::k128, 1024), step);
    }
    if constexpr (Config::kHasResidual) {
      const uint32_t coefficients = address_ + Config::kCoefficients + 64 * 32 * group;
      ptx::wgmma_f16(
          scores, ptx::matrix_descriptor(coefficients, ptx::Swizzle::k32, 256),
          ptx::matrix_descriptor(slot.operand + Config::kResidualsOfTile, ptx::Swizzle::k32, 256),
          1);
    }
    ptx::wgmma_commit();
  }

  // The sums of a tile begin at zero: the tensor cores keep 13 bits of them, too few for a whole
  // row (docs/kernels/sm90-prefill.md).
  __device__ __forceinline__ void start_values(int number, const uint32_t (&probabilities)[4][4],
                                               float (&sums)[Config::kSums]) const {
    const Slot slot = value_slot<Config>(address_, number);
    ptx::barrier_wait(slot.full, slot.parity);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      ptx::wgmma_e4m3(sums, probabilities[step],
                      ptx::matrix_descriptor(slot.operand + 32 * step, ptx::Swizzle::k128, 1024),
                      step);
    }
    ptx::wgmma_commit();
  }

  __device__ __forceinline__ void prepare_scores(int tile, float (&scores)[64]) const {
    const int first = tile * Config::kKeys;
    if (tile == 0 && p_.k_first != nullptr) add_first_key(scores);
    if (Config::kHasExtra && p_.softcap > 0) cap(scores);
    if (!view().is_whole(first)) mask(scores, first);
  }

  __device__ __forceinline__ static void rescale(float (&sums)[Config::kSums],
                                                 const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < Config::kSums; ++i) sums[i] *= factor[i / 2 % 2];
  }
  __device__ __forceinline__ void add(const float (&sums)[Config::kSums]) {
#pragma unroll
    for (int i = 0; i < Config::kSums; ++i) output_[i] += sums[i];
  }

  // ---- what is not in every tile or call --------------------------------------------------------

  __device__ __forceinline__ void add_first_key(float (&scores)[64]) const {
    const int lane = this->lane();
    if (lane % 4 != 0) return;  // the others have no element of key 0
    scores[0] += rows()[lane / 4].first_key;
    scores[2] += rows()[lane / 4 + 8].first_key;
  }

  __device__ __forceinline__ void cap(float (&scores)[64]) const {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      const RowScalars& row = rows()[lane() / 4 + i / 2 % 2 * 8];
      scores[i] = tanh_approx((scores[i] + row.cap_bias) * row.cap_factor);
    }
  }

  // How many of a thread's keys 8 j + 2 t + e of a tile lie before key `end`.
  __device__ __forceinline__ static int keys_before(int end, int lane) {
    const int from = min(max(end - lane % 4 * 2, 0), Config::kKeys);
    return from / 8 * 2 + min(from % 8, 2);
  }
  // Bits [0, count) of 32.
  __device__ __forceinline__ static uint32_t low_bits(int count) {
    return static_cast<uint32_t>((uint64_t{1} << count) - 1);
  }

  // -inf where a row does not see a key. Keys that it sees lie one after the other.
  __device__ __forceinline__ void mask(float (&scores)[64], int first) const {
    const int lane = this->lane();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowScalars& row = rows()[lane / 4 + 8 * half];
      const uint32_t seen = low_bits(keys_before(row.end - first, lane)) &
                            ~low_bits(keys_before(row.begin - first, lane));
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        float& score = scores[i / 2 * 4 + 2 * half + i % 2];
        if ((seen >> i & 1) == 0) score = __uint_as_float(0xFF800000u);
      }
    }
  }

  // ---- results ----------------------------------------------------------------------------------

  // Rows go through the shared memory of the warpgroup's own queries, so that they are written
  // whole.
  __device__ __forceinline__ void store() const {
    ptx::barrier_sync(1 + warp_row() / 64, 128);
    const int lane = this->lane();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      const float factor = finish_row(row, half);
#pragma unroll
      for (int j = 0; j < Config::kHeadDim / 8; ++j) {
        const float low = output_[4 * j + 2 * half] * factor;
        const float high = output_[4 * j + 2 * half + 1] * factor;
        chunk_of(row, j)[lane % 4] =
            p_.is_bf16 != 0 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
      }
    }
    __syncwarp();
    add_nan_values<Config>(params_);
#pragma unroll 2
    for (int i = lane; i < 16 * Config::kChunks; i += 32) {
      const int row = i / Config::kChunks;
      const int chunk = i % Config::kChunks;
      store_chunk(params_.common, segment(), warp_row() + row, chunk,
                  *reinterpret_cast<const uint4*>(chunk_of(row, chunk)));
    }
  }

  // Writes the row's LSE, and returns what its sums are to be multiplied by.
  __device__ __forceinline__ float finish_row(int row, int half) const {
    // The row's sum is a column of its own, which lane t = 0 has.
    const int lane = this->lane();
    const float sum = __shfl_sync(~0u, output_[Config::kHeadDim / 2 + 2 * half], lane & ~3);
    const QueryRow query = query_row(p_, segment(), warp_row() + row);
    const float offset = softmax_.offset_of(half, sum);
    const float factor =
        finish_denominator(p_, segment(), query, offset, sum, rows()[row].result.bias,
                           query.is_valid && lane % 4 == 0);
    if (offset == kNoKey) return 0.0f;
    return factor * ptx::reciprocal_approx(sum) *
           scale_of(p_.v_scale, p_.v_scale_strides, segment().stats_row, segment().kv_head);
  }

  const Sm90PrefillParams& params_;
  const DecodeParams& p_;
  uint32_t address_;
  Sm90Softmax<Config> softmax_;
  float output_[Config::kSums];
};

template <class Config>
__device__ PrefillView<Config> view_of_rows(const DecodeParams& p, const DecodeSegment& segment) {
  const int length = segment.seqlen_k;
  const int more = length - segment.seqlen_q;
  const int first = segment.first_position + more;
  const int last =
      min(query_row(p, segment, Config::kRows - 1).position, segment.seqlen_q - 1) + more;
  PrefillView<Config> view = {0, length, 0, length};
  if (p.causal != 0) {
    view.some_end = min(length, last + 1);
    view.all_end = min(length, first + 1);
  }
  if (p.window_left >= 0) {
    view.some_begin = max(0, first - min(p.window_left, first));
    view.all_begin = max(0, last - min(p.window_left, last));
  }
  return view;
}

// Ones behind the values of every stage, and zeros behind them: rows of 128 bytes, of which all in
// one are equal, so that the swizzle does not matter.
template <class Config>
__device__ void write_ones(std::byte* shared) {
  for (int i = static_cast<int>(threadIdx.x); i < Config::kStages * 64; i += Config::kThreads) {
    const uint32_t byte4 = i % 64 < 8 ? 0x38383838u : 0;
    std::byte* rows =
        shared + Config::kValueTiles + i / 64 * Config::kValueTileBytes + Config::kHeadDim * 128;
    *reinterpret_cast<uint4*>(rows + i % 64 * 16) = make_uint4(byte4, byte4, byte4, byte4);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_prefill_kernel(const __grid_constant__ Sm90PrefillParams params) {
#if __CUDA_ARCH__ >= 900
  std::byte* const shared = shared_memory();
  auto& segment = *reinterpret_cast<DecodeSegment*>(shared + Config::kSegment);
  auto& first_place = *reinterpret_cast<int*>(shared + Config::kSegment + sizeof(DecodeSegment));
  const DecodeParams& p = params.common.attention;
  const ScheduleParams& step = params.common.step;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t address = ptx::shared_address(shared);
  if (threadIdx.x < 32) {
    find_row_tile(step, static_cast<int>(blockIdx.x) / params.num_heads,
                  params.first_head + static_cast<int>(blockIdx.x) % params.num_heads,
                  Config::kRows, lane, segment);
    if (segment.seqlen_q > 0) {
      const int tiles = key_tiles_before(step, segment.sequence, lane);
      if (lane == 0) first_place = tiles * kTileKeys;
    }
  } else if (threadIdx.x < 64 && blockIdx.x == 0 && params.first_head == 0 &&
             step.error_count != nullptr) {
    count_wrong_sequences(params.common, Config::kRows, lane);
  } else if (threadIdx.x == 64) {
    for (int i = 0; i < Config::kStages; ++i) {
      for (const Slot& slot : {key_slot<Config>(address, i), value_slot<Config>(address, i)}) {
        ptx::barrier_init(slot.full, 1);
        ptx::barrier_init(slot.empty, Config::kConsumers);
      }
    }
    ptx::fence_barrier_init();
  }
  write_ones<Config>(shared);
  __syncthreads();
  if (segment.seqlen_q == 0) return;
  auto& view = *reinterpret_cast<PrefillView<Config>*>(shared + Config::kView);
  if (threadIdx.x == 0) view = view_of_rows<Config>(p, segment);
  __syncthreads();
  const int first = view.first_tile();
  const int end = view.end_tile();
  PrefillQueries<Config>(params.common, segment, shared).prepare(first < end && first == 0);
  ptx::fence_async_proxy();
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  if (group < 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) Producer<Config>(params, segment, address, first_place).run(first, end);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    Consumer<Config>(params).run();
  }
#endif
}

}  // namespace mpfa::kernels::sm90
