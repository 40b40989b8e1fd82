// What both consumers have in common: a warpgroup with 64 of a tile's query rows.
#pragma once

#include "kernels/any/decode/denominator.cuh"
#include "kernels/any/prefill/output.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/sm90/prefill/query.cuh"
#include "kernels/sm90/prefill/softmax.cuh"
#include "kernels/sm90/prefill/work.cuh"

namespace mpfa::kernels::sm90 {

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
// Of the tile's rows, the warp's first.
__device__ __forceinline__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 * 16 - 64; }
// From one lane: then the compiler sees that all of a warp have the same.
__device__ __forceinline__ int consumer() {
  return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128 - 1, 0);
}

// Piece of 16 bytes of a row of the warp's, where its query was and its result will be.
template <class Config>
__device__ __forceinline__ uint32_t* piece_of(int place, int row, int chunk) {
  return reinterpret_cast<uint32_t*>(shared_memory() +
                                     Config::query_chunk(place, warp_row() + row, chunk));
}

// ---- NaN of values ------------------------------------------------------------------------------

// Lanes share the dims of a key whose values have a NaN.
template <class Config>
__device__ void add_nan_of_key(const DecodeParams& p, int place, int key) {
  const DecodeSegment& segment = SharedPlan<Config>::work(place).segment;
  const RowScalars* const rows = SharedPlan<Config>::rows(place) + warp_row();
  const int page = p.block_table[steps(segment.sequence, p.block_table_stride) +
                                 steps(key >> p.page_shift, p.block_table_inner_stride)];
  const bool is_page = static_cast<uint32_t>(page) < static_cast<uint32_t>(p.num_pages);
  const std::byte* values = p.v + steps(is_page ? page : 0, p.v_strides.page) +
                            steps(segment.kv_head, p.v_strides.head) +
                            steps(key & ((1 << p.page_shift) - 1), p.v_strides.token);
  for (int dim = lane_of_warp(); dim < Config::kHeadDim; dim += 32) {
    if (ptx::find_e4m3_nan(static_cast<uint32_t>(values[dim])) == 0) continue;
    for (int row = 0; row < 16; ++row) {
      if (key < rows[row].begin || key >= rows[row].end) continue;
      reinterpret_cast<uint16_t*>(piece_of<Config>(place, row, dim / 8))[dim % 8] = 0x7FFF;
    }
  }
}

// Tiles that rows of the CTA see and that have a NaN among their values, which was taken for 0: it
// becomes the result of the warp's rows that see it.
template <class Config>
__device__ __noinline__ void add_nan_values(const Sm90PrefillParams& params, int place) {
  const WorkTile<Config>& work = SharedPlan<Config>::work(place);
  const uint32_t* const has_nan = nan_of_tiles(params, work);
  for (int tile = work.view.first_tile(); tile < work.view.end_tile(); ++tile) {
    if (has_nan[tile] == 0) continue;
    const int end = min((tile + 1) * kTileKeys, work.segment.seqlen_k);
    for (int key = tile * kTileKeys; key < end; ++key) {
      add_nan_of_key<Config>(params.common.attention, place, key);
    }
  }
  __syncwarp();
}

// ---- a consumer's state -------------------------------------------------------------------------

// kLead: by how many tiles products of keys run ahead of those of values.
template <class Config, class Scores, int kLead>
class ConsumerBase {
 public:
  __device__ explicit ConsumerBase(const Sm90PrefillParams& params)
      : params_(params), p_(params.common.attention) {
    plan_.base = ptx::shared_address(shared_memory());
#pragma unroll
    for (int i = 0; i < Config::kSums; ++i) output_[i] = 0.0f;
  }

 protected:
  using Plan = SharedPlan<Config>;
  using Stage = typename Plan::Stage;
  using Sums = float[Config::kSums];

  // ---- which tile of which work ----

  // Makes the next work the one whose keys are multiplied, its queries made ready; false if there
  // is none.
  __device__ __forceinline__ bool take_work() {
    work_.advance();
    ptx::barrier_wait(plan_.work_ready(place()), work_.parity);
    // From one lane, so that the compiler sees that all branch alike.
    tiles_left_ = __shfl_sync(~0u, Plan::work(place()).num_tiles, 0);
    if (tiles_left_ == 0) return false;
    QueryPreparer<Config>(params_, place()).prepare(warp_row());
    ptx::fence_async_proxy();
    sync_consumer();
    return true;
  }
  // Of the work whose keys are multiplied, among those under way.
  __device__ __forceinline__ int place() const { return work_.place; }
  // Of the work before the one at `place`.
  __device__ __forceinline__ static int before(int place) {
    return place == 0 ? Config::kWorks - 1 : place - 1;
  }

  // ---- products ----

  // Starts QK of the next tile of the work. Without `is_there` there is none: the product is of
  // old keys, and nobody's.
  __device__ __forceinline__ void start_keys(Scores& scores, bool is_there = true) {
    --tiles_left_;
    const Stage stage = keys();
    if (is_there) ptx::barrier_wait(plan_.keys_full(stage.place), stage.parity);
    const uint32_t keys = plan_.keys(is_there ? stage.place : 0);
    const uint32_t queries = is_there ? plan_.queries(place()) + 64 * 128 * consumer_ : keys;
    const uint64_t a = ptx::matrix_descriptor(queries, ptx::Swizzle::k128, 1024);
    const uint64_t b = ptx::matrix_descriptor(keys, ptx::Swizzle::k128, 1024);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < Config::kSteps; ++step) {
      const int at = step / 4 * Config::kBox + step % 4 * 32;
      scores.multiply(ptx::further(a, at), ptx::further(b, at), step);
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void free_keys() const { release(plan_.keys_empty(keys().place)); }

  // The sums of a tile begin at zero: the tensor cores keep 13 bits of them, too few for a whole
  // row (docs/kernels/sm90-prefill.md).
  __device__ __forceinline__ void start_values(const uint32_t (&probabilities)[4][4],
                                               Sums& sums) const {
    ptx::barrier_wait(plan_.values_full(values_.place), values_.parity);
    const uint64_t values =
        ptx::matrix_descriptor(plan_.values(values_.place), ptx::Swizzle::k128, 1024);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      ptx::wgmma_e4m3(sums, probabilities[step], ptx::further(values, 32 * step), step);
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void free_values() const {
    release(plan_.values_empty(values_.place));
  }

  __device__ __forceinline__ void add(const Sums& sums) {
#pragma unroll
    for (int i = 0; i < Config::kSums; ++i) output_[i] += sums[i];
  }

  // ---- scores ----

  // Of the tile that start_keys() was last called for.
  __device__ __forceinline__ void prepare_scores(Scores& scores) const {
    if (Config::kHasExtra && p_.softcap > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const RowScalars& row = row_of(place(), half);
        scores.cap(half, row.cap_bias, row.cap_factor);
      }
    }
    const WorkTile<Config>& work = Plan::work(place());
    const int first = (work.first_tile + tiles_left_) * Config::kKeys;
    if (work.view.is_whole(first)) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowScalars& row = row_of(place(), half);
      scores.hide(
          half, low_bits(keys_before(row.end - first)) & ~low_bits(keys_before(row.begin - first)));
    }
  }

  // For the first tile of the work at `place`.
  __device__ __forceinline__ void start_references(int place, const Scores& scores) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      offset_[half] = kNoKey;
      scores.move(half, row_of(place, half).lambda, offset_[half]);
    }
  }
  // Whether some row's reference is to move.
  __device__ __forceinline__ bool is_beyond(int place, const Scores& scores) const {
    const bool first = scores.may_exceed(0, row_of(place, 0).lambda, offset_[0]);
    const bool second = scores.may_exceed(1, row_of(place, 1).lambda, offset_[1]);
    return __any_sync(~0u, first | second) != 0;
  }
  // Moves references, and what is added up so far with them. Nothing may be under way.
  __device__ __forceinline__ void move_references(int place, const Scores& scores, Sums& sums) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = scores.move(half, row_of(place, half).lambda, offset_[half]);
#pragma unroll
      for (int i = 0; i < Config::kSums / 2; ++i) {
        const int at = i / 2 * 4 + 2 * half + i % 2;
        output_[at] *= factor;
        sums[at] *= factor;
      }
    }
  }
  __device__ __forceinline__ void exponentiate(int place, Scores& scores) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scores.exponentiate(half, row_of(place, half).lambda, offset_[half]);
    }
  }

  // ---- results ----

  // Writes the rows of the work at `place`, whose references are in `offset`, and begins anew. Rows
  // go through the shared memory of the warpgroup's own queries, so that they are written whole.
  __device__ __forceinline__ void finish_work(int place, const float (&offset)[2]) {
    sync_consumer();
    const int lane = lane_of_warp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      const float factor = finish_row(place, half, offset[half]);
#pragma unroll
      for (int j = 0; j < Config::kHeadDim / 8; ++j) {
        const float low = output_[4 * j + 2 * half] * factor;
        const float high = output_[4 * j + 2 * half + 1] * factor;
        piece_of<Config>(place, row, j)[lane % 4] =
            p_.is_bf16 != 0 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
      }
    }
    __syncwarp();
    if (Plan::work(place).has_nan != 0) add_nan_values<Config>(params_, place);
#pragma unroll 2
    for (int i = lane; i < 16 * Config::kChunks; i += 32) {
      const int row = i / Config::kChunks;
      const int chunk = i % Config::kChunks;
      std::byte* const to = Plan::rows(place)[warp_row() + row].result.out;
      if (to == nullptr) continue;
      store_piece(to + 16 * chunk, params_.common.out_has_pieces != 0,
                  *reinterpret_cast<const uint4*>(piece_of<Config>(place, row, chunk)));
    }
#pragma unroll
    for (int i = 0; i < Config::kSums; ++i) output_[i] = 0.0f;
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(plan_.work_done(place));
  }

  const Sm90PrefillParams& params_;
  const DecodeParams& p_;
  SharedPlan<Config> plan_;
  int consumer_ = consumer();
  Stage values_ = {Config::kStages - kLead, 1};              // of the next product of values
  typename Plan::WorkPlace work_ = {Config::kWorks - 1, 1};  // whose keys are multiplied
  int tiles_left_ = 0;  // of it, behind the one that is or was last
  float offset_[2];     // of this thread's rows: softmax.cuh
  Sums output_;

 private:
  __device__ __forceinline__ static const RowScalars& row_of(int place, int half) {
    return Plan::rows(place)[warp_row() + lane_of_warp() / 4 + 8 * half];
  }

  // Of the next product of keys.
  __device__ __forceinline__ Stage keys() const {
    Stage stage = values_;
    stage.place += kLead;
    if (stage.place >= Config::kStages) {
      stage.place -= Config::kStages;
      stage.parity ^= 1;
    }
    return stage;
  }

  // Waits for the warpgroup.
  __device__ __forceinline__ void sync_consumer() const {
    if (consumer_ == 0) {
      ptx::barrier_sync(2, 128);
    } else {
      ptx::barrier_sync(3, 128);
    }
  }

  __device__ __forceinline__ static void release(uint32_t barrier) {
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(barrier);
  }

  // How many of a thread's keys 8 j + 2 t + e of a tile lie before key `end`.
  __device__ __forceinline__ static int keys_before(int end) {
    const int from = min(max(end - lane_of_warp() % 4 * 2, 0), Config::kKeys);
    return from / 8 * 2 + min(from % 8, 2);
  }
  // Bits [0, count) of 32.
  __device__ __forceinline__ static uint32_t low_bits(int count) {
    return static_cast<uint32_t>((uint64_t{1} << count) - 1);
  }

  // Writes the row's LSE, and returns what its sums are to be multiplied by.
  __device__ __forceinline__ float finish_row(int place, int half, float offset) const {
    const int lane = lane_of_warp();
    const RowScalars& row = row_of(place, half);
    const DecodeSegment& segment = Plan::work(place).segment;
    // The row's sum is a column of its own, which lane t = 0 has.
    const float sum = __shfl_sync(~0u, output_[Config::kHeadDim / 2 + 2 * half], lane & ~3);
    offset = final_offset(offset, sum);
    const bool is_valid = row.result.out != nullptr;
    float factor = 1.0f;
    if (is_valid && (p_.lse != nullptr || p_.sinks != nullptr)) {
      const QueryRow query = query_row(p_, segment, warp_row() + lane / 4 + 8 * half);
      factor = finish_denominator(p_, segment, query, offset, sum, row.result.bias, lane % 4 == 0);
    }
    if (offset == kNoKey) return 0.0f;
    return factor * ptx::reciprocal_approx(sum) * row.result.v_scale;
  }
};

}  // namespace mpfa::kernels::sm90
