// Attention for long queries: a CTA has a tile of query rows of one sequence and KV head (a group's
// heads side by side), unpacks the keys' tiles once for all of them, last tile first, and
// multiplies with mma.m16n8k16. docs/perf/prefill.md has measurements.
#pragma once

#include "kernels/any/decode/denominator.cuh"
#include "kernels/any/prefill/output.cuh"
#include "kernels/any/prefill/sequence.cuh"
#include "kernels/any/prefill/softmax.cuh"

namespace mpfa::kernels {

template <class Config>
class PrefillCta {
 public:
  __device__ PrefillCta(const PrefillParams& params, const DecodeSegment& segment,
                        std::byte* shared)
      : params_(params), p_(params.attention), segment_(segment), shared_(shared) {}

  __device__ __forceinline__ void run() {
    const PrefillView<Config> view = view_of_rows<Config>(p_, segment_);
    PrefillTiles<Config> tiles(p_, segment_, shared_);
    const int first_tile = view.first_tile();
    int tile = view.end_tile() - 1;
    if (tile >= first_tile) {
      tiles.find_pages(tile);
      tiles.start(tile);
      if (tile > first_tile) tiles.find_pages(tile - 1);
    }
    PrefillQueries<Config>(params_, segment_, shared_)
        .prepare(tile >= first_tile && first_tile == 0);
    clear_nan_dims();
    PrefillSoftmax<Config> softmax;
    softmax.start();
    PrefillOutput<Config> output;
#pragma unroll 1
    for (; tile >= first_tile; --tile) {
      const int first = tile * Config::kKeys;
      tiles.wait();
      __syncthreads();
      const bool has_nan = tiles.unpack(first, view);
      if (__syncthreads_or(has_nan ? 1 : 0) != 0) note_nan_values(first);
      if (tile > first_tile) {
        tiles.start(tile - 1);
        if (tile - 1 > first_tile) tiles.find_pages(tile - 2);
      }
      attend_tile(tile, view.is_whole(first), tiles, softmax, output);
    }
    softmax.finish();
    store(softmax, output);
  }

 private:
  __device__ __forceinline__ static int lane() { return thread_again() % 32; }
  __device__ __forceinline__ static int warp_row() {
    return thread_again() / 32 * Config::kWarpRows;
  }
  // The warp's.
  __device__ __forceinline__ const RowScalars* rows() const {
    return reinterpret_cast<const RowScalars*>(shared_ + Config::kScalars) + warp_row();
  }
  __device__ __forceinline__ uint32_t shared_address(int at) const {
    return ptx::shared_address(shared_) + at;
  }

  __device__ __forceinline__ void attend_tile(int tile, bool is_whole,
                                              const PrefillTiles<Config>& tiles,
                                              PrefillSoftmax<Config>& softmax,
                                              PrefillOutput<Config>& output) const {
    PrefillScores<Config> scores = {};
    multiply_keys(scores);
    if (p_.residual_rank > 0) multiply_residuals(scores);
    if (Config::kHasExtra && p_.delta_s != nullptr) add_delta(scores, tiles.delta_of(tile));
    if (tile == 0 && p_.k_first != nullptr) add_first_key(scores);
    if (Config::kHasExtra && p_.softcap > 0) cap(scores);
    if (!is_whole) mask(scores, tile * Config::kKeys);
    softmax.take(scores, output, rows(), lane());
    multiply_values(scores, softmax, output);
  }

  // scores += Q K^T. All rows whose addresses a lane gives have the same number modulo 8: their
  // chunks' addresses differ from that of one chunk by one exclusive or (chunk_at).
  __device__ __forceinline__ void multiply_keys(PrefillScores<Config>& scores) const {
    const int lane = this->lane();
    const int warp_row = this->warp_row();
    constexpr int kRowBytes = Config::kHeadDim * 2;
    const uint32_t queries = shared_address(
        Config::kQueries + chunk_at<Config::kHeadDim>(warp_row + lane % 16, lane / 16));
    const uint32_t keys = shared_address(
        Config::kKeyTile + chunk_at<Config::kHeadDim>(lane / 16 * 8 + lane % 8, lane / 8 % 2));
#pragma unroll
    for (int step = 0; step < Config::kSteps; ++step) {
      uint32_t a[Config::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Config::kRowTiles; ++m) {
        ptx::load_matrices((queries ^ 32 * step) + 16 * m * kRowBytes, a[m]);
      }
#pragma unroll
      for (int n = 0; n < Config::kKeyTiles; n += 2) {
        uint32_t b[4];
        ptx::load_matrices((keys ^ 32 * step) + 8 * n * kRowBytes, b);
        multiply(scores, n, a, b);
      }
    }
  }

  // scores += (U Q) p^T.
  __device__ __forceinline__ void multiply_residuals(PrefillScores<Config>& scores) const {
    const int lane = this->lane();
    const int warp_row = this->warp_row();
    uint32_t a[Config::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
      const int row = warp_row + 16 * m + lane % 16;
      ptx::load_matrices(shared_address(Config::kCoefficients + narrow_chunk_at(row, lane / 16)),
                         a[m]);
    }
#pragma unroll
    for (int n = 0; n < Config::kKeyTiles; n += 2) {
      const int key = 8 * n + lane / 16 * 8 + lane % 8;
      uint32_t b[4];
      ptx::load_matrices(shared_address(Config::kResiduals + narrow_chunk_at(key, lane / 8 % 2)),
                         b);
      multiply(scores, n, a, b);
    }
  }

  // Two tiles of keys.
  __device__ __forceinline__ static void multiply(PrefillScores<Config>& scores, int n,
                                                  const uint32_t (&a)[Config::kRowTiles][4],
                                                  const uint32_t (&b)[4]) {
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
      ptx::mma_f16(scores[m][n], a[m], b[0], b[1]);
      ptx::mma_f16(scores[m][n + 1], a[m], b[2], b[3]);
    }
  }

  // output += P V.
  __device__ __forceinline__ void multiply_values(PrefillScores<Config>& scores,
                                                  PrefillSoftmax<Config>& softmax,
                                                  PrefillOutput<Config>& output) const {
    const int lane = this->lane();
    const uint32_t values =
        shared_address(Config::kValueTile + chunk_at<Config::kHeadDim>(lane % 16, lane / 16));
#pragma unroll
    for (int step = 0; step < Config::kKeys / 16; ++step) {
      uint32_t a[Config::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Config::kRowTiles; ++m) softmax.exponentiate(scores, m, step, a[m]);
#pragma unroll
      for (int j = 0; j < Config::kDimTiles; j += 2) {
        uint32_t b[4];
        ptx::load_matrices_transposed((values ^ 16 * j) + 16 * step * Config::kHeadDim * 2, b);
#pragma unroll
        for (int m = 0; m < Config::kRowTiles; ++m) {
          ptx::mma_f16(output.sums[m][j], a[m], b[0], b[1]);
          ptx::mma_f16(output.sums[m][j + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  // ---- what is not in every tile or call --------------------------------------------------------

  __device__ __forceinline__ void add_delta(PrefillScores<Config>& scores,
                                            const std::byte* delta) const {
    const int lane = this->lane();
    const RowScalars* const rows = this->rows();
    const int warp_row = this->warp_row();
    const int heads = Config::delta_heads(p_.group_size);
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_of_half(m, half, lane);
        const float scale = rows[row].delta_scale;
        const auto* pairs =
            reinterpret_cast<const uint32_t*>(delta + (warp_row + row) % heads * Config::kDeltaRow);
#pragma unroll
        for (int n = 0; n < Config::kKeyTiles; ++n) {
          const uint32_t pair = pairs[4 * n + lane % 4];
          float* const keys = &scores[m][n][2 * half];
          keys[0] = fmaf(__uint_as_float(pair << 16), scale, keys[0]);
          keys[1] = fmaf(__uint_as_float(pair & 0xFFFF0000u), scale, keys[1]);
        }
      }
    }
  }

  __device__ __forceinline__ void add_first_key(PrefillScores<Config>& scores) const {
    const int lane = this->lane();
    const RowScalars* const rows = this->rows();
    if (lane % 4 != 0) return;  // the others have no element of key 0
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
      scores[m][0][0] += rows[row_of_half(m, 0, lane)].first_key;
      scores[m][0][2] += rows[row_of_half(m, 1, lane)].first_key;
    }
  }

  __device__ __forceinline__ void cap(PrefillScores<Config>& scores) const {
    const int lane = this->lane();
    const RowScalars* const rows = this->rows();
    for_each_prefill_score<Config>(scores, lane, [&](float& score, int m, int half, int) {
      const RowScalars& row = rows[row_of_half(m, half, lane)];
      score = tanh_approx((score + row.cap_bias) * row.cap_factor);
    });
  }

  // -inf where a row does not see a key.
  __device__ __forceinline__ void mask(PrefillScores<Config>& scores, int first) const {
    const int lane = this->lane();
    const RowScalars* const rows = this->rows();
    int begin[Config::kRowTiles][2];
    int end[Config::kRowTiles][2];
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const RowScalars& row = rows[row_of_half(m, half, lane)];
        begin[m][half] = row.begin - first;
        end[m][half] = row.end - first;
      }
    }
    for_each_prefill_score<Config>(scores, lane, [&](float& score, int m, int half, int key) {
      if (key < begin[m][half] || key >= end[m][half]) score = __uint_as_float(0xFF800000u);
    });
  }

  // Dims of this thread's row whose output is NaN, as bits.
  __device__ __forceinline__ uint32_t* nan_dims(int row) const {
    return reinterpret_cast<uint32_t*>(shared_ + Config::kNanDims) + row * (Config::kHeadDim / 32);
  }

  __device__ __forceinline__ void clear_nan_dims() const {
#pragma unroll
    for (int i = 0; i < Config::kHeadDim / 32; ++i) nan_dims(static_cast<int>(threadIdx.x))[i] = 0;
  }

  // For each row the dims in which a key of the tile that it sees is NaN. By all threads, one a
  // row; the next tile's copies may start after it.
  __device__ __forceinline__ void note_nan_values(int first) const {
    const int own = static_cast<int>(threadIdx.x);
    const RowScalars& row = reinterpret_cast<const RowScalars*>(shared_ + Config::kScalars)[own];
    const int end = min(row.end - first, Config::kKeys);
#pragma unroll 1
    for (int key = max(row.begin - first, 0); key < end; ++key) {
#pragma unroll 1
      for (int i = 0; i < Config::kHeadDim / 4; ++i) {
        const uint32_t bytes = *reinterpret_cast<const uint32_t*>(shared_ + Config::kRawValues +
                                                                  key * Config::kHeadDim + 4 * i);
        const uint32_t nan = ptx::find_e4m3_nan(bytes) >> 7;
        const uint32_t bits = nan | nan >> 7 | nan >> 14 | nan >> 21;
        if (nan != 0) nan_dims(own)[i / 8] |= (bits & 15) << (4 * (i % 8));
      }
    }
    __syncthreads();
  }

  // ---- results ----------------------------------------------------------------------------------

  // Writes a row's LSE, and returns what its sums are to be multiplied by.
  __device__ __forceinline__ float finish_row(const QueryRow& query, float offset, float sum,
                                              float bias) const {
    const float factor =
        finish_denominator(p_, segment_, query, offset, sum, bias, this->lane() % 4 == 0);
    if (offset == kNoKey) return 0.0f;
    return factor * ptx::reciprocal_approx(sum) *
           scale_of(p_.v_scale, p_.v_scale_strides, segment_.stats_row, segment_.kv_head);
  }

  __device__ __forceinline__ static float nan_if(uint32_t is_nan, float x) {
    return is_nan != 0 ? __uint_as_float(0x7FFFFFFFu) : x;
  }

  // Rows go through the shared memory of the warp's own queries, so that they are written whole.
  __device__ __forceinline__ void store(const PrefillSoftmax<Config>& softmax,
                                        const PrefillOutput<Config>& output) const {
    const int lane = this->lane();
    const RowScalars* const rows = this->rows();
    const int warp_row = this->warp_row();
    __syncwarp();
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_of_half(m, half, lane);
        const QueryRow query = query_row(p_, segment_, warp_row + row);
        if (!query.is_valid) continue;
        const float factor =
            finish_row(query, softmax.offset[m][half], softmax.sum[m][half], rows[row].result.bias);
#pragma unroll
        for (int j = 0; j < Config::kDimTiles; ++j) {
          const uint32_t nan = nan_dims(warp_row + row)[j / 4] >> (j % 4 * 8 + lane % 4 * 2);
          const float low = nan_if(nan & 1, output.sums[m][j][2 * half] * factor);
          const float high = nan_if(nan & 2, output.sums[m][j][2 * half + 1] * factor);
          auto* to = reinterpret_cast<uint32_t*>(shared_ + Config::kQueries +
                                                 chunk_at<Config::kHeadDim>(warp_row + row, j));
          to[lane % 4] = p_.is_bf16 != 0 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
        }
      }
    }
    __syncwarp();
#pragma unroll 2
    for (int i = lane; i < Config::kWarpRows * Config::kChunks; i += 32) {
      store_chunk(warp_row + i / Config::kChunks, i % Config::kChunks);
    }
  }

  __device__ __forceinline__ void store_chunk(int row, int chunk) const {
    const QueryRow query = query_row(p_, segment_, row);
    if (!query.is_valid) return;
    const uint4 words = *reinterpret_cast<const uint4*>(shared_ + Config::kQueries +
                                                        chunk_at<Config::kHeadDim>(row, chunk));
    std::byte* to = p_.out + 2 * ((segment_.q_begin + query.position) * p_.out_row_stride +
                                  query.head * p_.out_head_stride + 8 * chunk);
    store_piece(to, params_.out_has_pieces != 0, words);
  }

  const PrefillParams& params_;
  const DecodeParams& p_;
  const DecodeSegment& segment_;
  std::byte* shared_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kMinCtas)
    prefill_kernel(const __grid_constant__ PrefillParams params) {
  extern __shared__ __align__(1024) std::byte shared[];
  auto& segment = *reinterpret_cast<DecodeSegment*>(shared + Config::kSegment);
  const int heads = params.step.num_kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x < 32) {
    find_row_tile(params.step, static_cast<int>(blockIdx.x) / heads,
                  static_cast<int>(blockIdx.x) % heads, Config::kRows, lane, segment);
  } else if (threadIdx.x < 64 && blockIdx.x == 0 && params.step.error_count != nullptr) {
    count_wrong_sequences(params, Config::kRows, lane);
  }
  __syncthreads();
  if (segment.seqlen_q == 0) return;
  PrefillCta<Config>(params, segment, shared).run();
}

}  // namespace mpfa::kernels
