// Attention for long queries on sm_90a: a CTA has a tile of query rows of one sequence and KV head
// (a group's heads side by side). One warpgroup brings tiles of unpacked keys and values by the
// copy engine, last tile first; two attend, with wgmma: scores in FP32, probabilities in e4m3.
#pragma once

#include "kernels/any/decode/denominator.cuh"
#include "kernels/any/prefill/sequence.cuh"
#include "kernels/any/prefill/tile.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/sm90/prefill/config.h"
#include "kernels/sm90/prefill/softmax.cuh"
#include "kernels/sm90/prefill/tiles.cuh"

namespace mpfa::kernels::sm90 {

// Barriers of a stage: its tile is there; it may be overwritten.
template <class Config>
struct Stage {
  uint32_t tile;
  uint32_t full;
  uint32_t empty;

  __device__ Stage(uint32_t shared, int number)
      : tile(shared + Config::kTiles + number % Config::kStages * Config::kTileBytes),
        full(shared + Config::kBarriers + number % Config::kStages * 16),
        empty(full + 8) {}
};

template <class Config>
class Producer {
 public:
  __device__ Producer(const Sm90PrefillParams& params, const DecodeSegment& segment,
                      uint32_t shared, int first_place)
      : params_(params), segment_(segment), shared_(shared), first_place_(first_place) {}

  // By one thread: tiles [first, end), last first.
  __device__ void run(int first, int end) const {
    for (int number = 0; number < end - first; ++number) {
      const Stage<Config> stage(shared_, number);
      const int use = number / Config::kStages;
      if (use > 0) ptx::barrier_wait(stage.empty, (use - 1) & 1);
      copy(stage, first_place_ + (end - 1 - number) * Config::kKeys);
    }
  }

 private:
  __device__ void copy(const Stage<Config>& stage, int place) const {
    const bool has_residual = params_.common.attention.residual_rank > 0;
    const int head = segment_.kv_head;
    ptx::barrier_expect(stage.full, Config::kBoxes * Config::kBox +
                                        (has_residual ? Config::kNarrow : 0) +
                                        Config::kHeadDim * Config::kKeys);
#pragma unroll
    for (int box = 0; box < Config::kBoxes; ++box) {
      ptx::tensor_copy(stage.tile + box * Config::kBox, params_.keys_map, box * 64, place, head,
                       stage.full);
    }
    if (has_residual) {
      ptx::tensor_copy(stage.tile + Config::kResidualsOfTile, params_.residuals_map, 0, place, head,
                       stage.full);
    }
    ptx::tensor_copy(stage.tile + Config::kValuesOfTile, params_.values_map, place, 0, head,
                     stage.full);
  }

  const Sm90PrefillParams& params_;
  const DecodeSegment& segment_;
  uint32_t shared_;
  int first_place_;
};

// A warpgroup: 64 of the CTA's rows.
template <class Config>
class Consumer {
 public:
  __device__ Consumer(const Sm90PrefillParams& params, const DecodeSegment& segment,
                      std::byte* shared, int group)
      : p_(params.common.attention),
        segment_(segment),
        shared_(shared),
        address_(ptx::shared_address(shared)),
        group_(group),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_row_(64 * group + static_cast<int>(threadIdx.x) / 32 % 4 * 16) {}

  __device__ void run(const PrefillView<Config>& view) {
    const int first = view.first_tile();
    const int end = view.end_tile();
    softmax_.start(rows(), lane_);
#pragma unroll
    for (float& sum : output_) sum = 0.0f;
#pragma unroll 1
    for (int number = 0; number < end - first; ++number) {
      const Stage<Config> stage(address_, number);
      ptx::barrier_wait(stage.full, number / Config::kStages & 1);
      attend_tile(end - 1 - number, stage, view);
      if (threadIdx.x % 128 == 0) ptx::barrier_arrive(stage.empty);
    }
    store();
  }

 private:
  // Rows g and g + 8 of the warp's are this thread's.
  __device__ const RowScalars* rows() const {
    return reinterpret_cast<const RowScalars*>(shared_ + Config::kScalars) + warp_row_;
  }

  __device__ __forceinline__ void attend_tile(int tile, const Stage<Config>& stage,
                                              const PrefillView<Config>& view) {
    float scores[64];
    multiply_keys(stage, scores);
    const int first = tile * Config::kKeys;
    if (tile == 0 && p_.k_first != nullptr) add_first_key(scores);
    if (Config::kHasExtra && p_.softcap > 0) cap(scores);
    if (!view.is_whole(first)) mask(scores, first);
    softmax_.take(scores, output_);
    uint32_t probabilities[4][4];
    softmax_.exponentiate(scores, probabilities);
    add_values(stage, probabilities);
  }

  __device__ __forceinline__ void multiply_keys(const Stage<Config>& stage,
                                                float (&scores)[64]) const {
    const uint32_t queries = address_ + Config::kQueries + 64 * 128 * group_;
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < Config::kSteps; ++step) {
      const int at = step / 4 * Config::kBox + step % 4 * 32;
      ptx::wgmma_f16(scores, ptx::matrix_descriptor(queries + at, ptx::Swizzle::k128, 1024),
                     ptx::matrix_descriptor(stage.tile + at, ptx::Swizzle::k128, 1024), step);
    }
    if (p_.residual_rank > 0) {
      const uint32_t coefficients = address_ + Config::kCoefficients + 64 * 32 * group_;
      ptx::wgmma_f16(
          scores, ptx::matrix_descriptor(coefficients, ptx::Swizzle::k32, 256),
          ptx::matrix_descriptor(stage.tile + Config::kResidualsOfTile, ptx::Swizzle::k32, 256), 1);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }

  // The sums of a tile begin at zero: the tensor cores keep 13 bits of them, too few for a whole
  // row (docs/kernels/sm90-prefill.md).
  __device__ __forceinline__ void add_values(const Stage<Config>& stage,
                                             const uint32_t (&probabilities)[4][4]) {
    float sums[Config::kSums];
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      ptx::wgmma_e4m3(sums, probabilities[step],
                      ptx::matrix_descriptor(stage.tile + Config::kValuesOfTile + 32 * step,
                                             ptx::Swizzle::k128, 1024),
                      step);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < Config::kSums; ++i) output_[i] += sums[i];
  }

  // ---- what is not in every tile or call --------------------------------------------------------

  __device__ __forceinline__ void add_first_key(float (&scores)[64]) const {
    if (lane_ % 4 != 0) return;  // the others have no element of key 0
    scores[0] += rows()[lane_ / 4].first_key;
    scores[2] += rows()[lane_ / 4 + 8].first_key;
  }

  __device__ __forceinline__ void cap(float (&scores)[64]) const {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      const RowScalars& row = rows()[lane_ / 4 + i / 2 % 2 * 8];
      scores[i] = tanh_approx((scores[i] + row.cap_bias) * row.cap_factor);
    }
  }

  // -inf where a row does not see a key.
  __device__ __forceinline__ void mask(float (&scores)[64], int first) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowScalars& row = rows()[lane_ / 4 + 8 * half];
      const int begin = row.begin - first;
      const int end = row.end - first;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = 8 * j + lane_ % 4 * 2 + e;
          if (key < begin || key >= end)
            scores[4 * j + 2 * half + e] = __uint_as_float(0xFF800000u);
        }
      }
    }
  }

  // ---- results ----------------------------------------------------------------------------------

  __device__ __forceinline__ void store() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane_ / 4 + 8 * half;
      // The row's sum is a column of its own, which lane t = 0 has.
      const float sum = __shfl_sync(~0u, output_[Config::kHeadDim / 2 + 2 * half], lane_ & ~3);
      const QueryRow query = query_row(p_, segment_, warp_row_ + row);
      if (!query.is_valid) continue;
      const float offset = softmax_.offset_of(half, sum);
      float factor = finish_denominator(p_, segment_, query, offset, sum, rows()[row].result.bias,
                                        lane_ % 4 == 0);
      factor = offset == kNoKey ? 0.0f
                                : factor * ptx::reciprocal_approx(sum) *
                                      scale_of(p_.v_scale, p_.v_scale_strides, segment_.stats_row,
                                               segment_.kv_head);
      auto* to = reinterpret_cast<uint16_t*>(
          p_.out + 2 * (steps(segment_.q_begin + query.position, p_.out_row_stride) +
                        steps(query.head, p_.out_head_stride)));
#pragma unroll
      for (int j = 0; j < Config::kHeadDim / 8; ++j) {
        const float low = output_[4 * j + 2 * half] * factor;
        const float high = output_[4 * j + 2 * half + 1] * factor;
        const uint32_t pair = p_.is_bf16 != 0 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
        to[8 * j + lane_ % 4 * 2] = static_cast<uint16_t>(pair);
        to[8 * j + lane_ % 4 * 2 + 1] = static_cast<uint16_t>(pair >> 16);
      }
    }
  }

  const DecodeParams& p_;
  const DecodeSegment& segment_;
  std::byte* shared_;
  uint32_t address_;
  int group_;
  int lane_;
  int warp_row_;
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
    std::byte* rows = shared + Config::kTiles + i / 64 * Config::kTileBytes +
                      Config::kValuesOfTile + Config::kHeadDim * 128;
    *reinterpret_cast<uint4*>(rows + i % 64 * 16) = make_uint4(byte4, byte4, byte4, byte4);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_prefill_kernel(const __grid_constant__ Sm90PrefillParams params) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) std::byte shared[];
  auto& segment = *reinterpret_cast<DecodeSegment*>(shared + Config::kSegment);
  auto& first_place = *reinterpret_cast<int*>(shared + Config::kSegment + sizeof(DecodeSegment));
  const DecodeParams& p = params.common.attention;
  const ScheduleParams& step = params.common.step;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t address = ptx::shared_address(shared);
  if (threadIdx.x < 32) {
    find_row_tile(step, static_cast<int>(blockIdx.x) / step.num_kv_heads,
                  static_cast<int>(blockIdx.x) % step.num_kv_heads, Config::kRows, lane, segment);
    if (segment.seqlen_q > 0) {
      const int tiles = key_tiles_before(step, segment.sequence, lane);
      if (lane == 0) first_place = tiles * kTileKeys;
    }
  } else if (threadIdx.x < 64 && blockIdx.x == 0 && step.error_count != nullptr) {
    count_wrong_sequences(params.common, Config::kRows, lane);
  } else if (threadIdx.x == 64) {
    for (int i = 0; i < Config::kStages; ++i) {
      const Stage<Config> stage(address, i);
      ptx::barrier_init(stage.full, 1);
      ptx::barrier_init(stage.empty, Config::kConsumers);
    }
    ptx::fence_barrier_init();
  }
  write_ones<Config>(shared);
  __syncthreads();
  if (segment.seqlen_q == 0) return;
  const PrefillView<Config> view = view_of_rows<Config>(p, segment);
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
    Consumer<Config>(params, segment, shared, group).run(view);
  }
#endif
}

}  // namespace mpfa::kernels::sm90
