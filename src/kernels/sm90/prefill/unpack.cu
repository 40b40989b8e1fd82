// From pages of 4-bit keys and 8-bit values to what the prefill kernel reads by the copy engine:
// FP16 keys, with all that the cache keeps of them added up, and values with their tokens side by
// side. A CTA has a tile of keys of one KV head.
#include "kernels/any/decode/scores.cuh"
#include "kernels/any/steps.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/sm90/prefill/tiles.cuh"
#include "kernels/sm90/prefill/unpack.h"

namespace mpfa::kernels::sm90 {
namespace {

constexpr int kThreads = 256;

template <int kDim>
class Unpacker {
 public:
  __device__ Unpacker(const Sm90PrefillParams& params, const KeyTile& tile, std::byte* shared)
      : p_(params.common.attention),
        cache_(params.cache),
        tile_(tile),
        shared_(shared),
        to_head_(static_cast<int>(blockIdx.y)),
        head_(params.first_head + to_head_),
        thread_(static_cast<int>(threadIdx.x)),
        stats_row_(stats_row_of(params.common.step, tile.sequence)) {}

  __device__ void run() {
    find_pages();
    if (p_.residual_rank > 0) load_directions();
    __syncthreads();
    start_values();
    unpack_keys();
    ptx::wait_for_copies();
    __syncthreads();
    turn_values();
  }

 private:
  static constexpr int kChunks = kDim / 16;  // of a row of values
  static constexpr int kWords = kDim / 8;    // of a row of codes
  static constexpr int kValues = 0;          // [tokens][kDim], chunks exchanged
  static constexpr int kPages = kTileKeys * kDim;
  static constexpr int kDirections = kPages + kTileKeys / 16 * 4;

  // ---- where tokens lie ----

  __device__ int32_t* pages() const { return reinterpret_cast<int32_t*>(shared_ + kPages); }
  __device__ int tokens() const {
    return min(kTileKeys, tile_.step.seqlen_k - tile_.tile * kTileKeys);
  }
  // First token of the tile among those of all sequences.
  __device__ int64_t place() const { return int64_t{blockIdx.x} * kTileKeys; }

  __device__ void find_pages() const {
    const int first = tile_.tile * kTileKeys;
    const int count = max(1, kTileKeys >> p_.page_shift);
    if (thread_ >= count) return;
    const int token = min(first + (thread_ << p_.page_shift), tile_.step.seqlen_k - 1);
    const int page = p_.block_table[steps(tile_.sequence, p_.block_table_stride) +
                                    steps(token >> p_.page_shift, p_.block_table_inner_stride)];
    const bool is_page = static_cast<uint32_t>(page) < static_cast<uint32_t>(p_.num_pages);
    if (!is_page && p_.error_count != nullptr) atomicAdd(p_.error_count, 1);
    pages()[thread_] = is_page ? page : 0;
  }

  __device__ int64_t offset(const PagedStrides& strides, int token) const {
    const int in_page = (tile_.tile * kTileKeys + token) & ((1 << p_.page_shift) - 1);
    return steps(pages()[token >> p_.page_shift], strides.page) + steps(head_, strides.head) +
           steps(in_page, strides.token);
  }

  // ---- keys ----

  // A thread has a word of codes of every kTokensApart-th token: eight dims, the same of each.
  static constexpr int kTokensApart = kThreads / kWords;
  static constexpr int kAtOnce = 4;  // tokens

  __device__ void unpack_keys() const {
#pragma unroll 1
    for (int first = thread_ / kWords; first < kTileKeys; first += kAtOnce * kTokensApart) {
      if (p_.residual_rank > 0) {
        unpack_keys_of<true>(first);
      } else {
        unpack_keys_of<false>(first);
      }
    }
  }

  template <bool kResidual>
  __device__ __forceinline__ void unpack_keys_of(int first) const {
    const int word = thread_ % kWords;
    std::byte* const rows = cache_.keys + (steps(to_head_, cache_.capacity) + place()) * kDim * 2;
    uint32_t values[kAtOnce][4];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      unpack_word(first + i * kTokensApart, word, values[i]);
    }
    if constexpr (kResidual) add_residuals(first, word, values);
    if (tile_.tile == 0 && first == 0 && p_.k_first != nullptr) add_first_key(word, values[0]);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      std::byte* const to = rows + (first + i * kTokensApart) * kDim * 2 + word * 16;
      *reinterpret_cast<uint4*>(to) =
          make_uint4(values[i][0], values[i][1], values[i][2], values[i][3]);
    }
  }

  __device__ __forceinline__ void unpack_word(int token, int word, uint32_t (&values)[4]) const {
#pragma unroll
    for (uint32_t& pair : values) pair = 0;
    if (token >= tokens()) return;
    const auto* codes = reinterpret_cast<const uint32_t*>(
        p_.k_codes + offset(p_.k_codes_strides, token) + word * 4);
    const auto* scale = reinterpret_cast<const uint8_t*>(
        p_.k_scales + offset(p_.k_scales_strides, token) + word / 2);
    const uint32_t pair = ptx::e4m3x2_to_f16x2_with_nan(__ldg(scale));
    unpack_codes(__ldg(codes), __byte_perm(pair, 0, 0x1010), values);
  }

  // The sum of all directions, in FP32, to what the codes say.
  __device__ __forceinline__ void add_residuals(int first, int word,
                                                uint32_t (&values)[kAtOnce][4]) const {
    float sums[kAtOnce][8];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) to_floats(values[i], sums[i]);
#pragma unroll 1
    for (int pair = 0; pair < p_.residual_rank / 2; ++pair) {
      uint32_t residuals[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        residuals[i] = residual_pair(first + i * kTokensApart, pair);
      }
      add_direction(2 * pair, word, residuals, sums, [](uint32_t x) { return ptx::low_f16(x); });
      add_direction(2 * pair + 1, word, residuals, sums,
                    [](uint32_t x) { return ptx::high_f16(x); });
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) to_pairs(sums[i], values[i]);
  }

  __device__ __forceinline__ uint32_t residual_pair(int token, int pair) const {
    if (token >= tokens()) return 0;
    const auto* bytes = reinterpret_cast<const uint16_t*>(
        p_.k_residual + offset(p_.k_residual_strides, token) + 2 * pair);
    return ptx::e4m3x2_to_f16x2_with_nan(__ldg(bytes));
  }

  template <class Half>
  __device__ __forceinline__ void add_direction(int direction, int word,
                                                const uint32_t (&residuals)[kAtOnce],
                                                float (&sums)[kAtOnce][8], Half half) const {
    const float4* const from =
        reinterpret_cast<const float4*>(directions() + direction * kDim + word * 8);
    const float4 low = from[0];
    const float4 high = from[1];
    const float dims[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float residual = half(residuals[i]);
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(residual, dims[j], sums[i][j]);
    }
  }

  // What the sequence's first key lacks.
  __device__ void add_first_key(int word, uint32_t (&values)[4]) const {
    const auto* row =
        reinterpret_cast<const uint16_t*>(p_.k_first + steps(pages()[0], p_.k_first_strides.page) +
                                          steps(head_, p_.k_first_strides.head));
    const float unit = power_of_two(kKeyExponent) / k_scale();
    float sums[8];
    to_floats(values, sums);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sums[j] += __uint_as_float(uint32_t{row[8 * word + j]} << 16) * unit;
    }
    to_pairs(sums, values);
  }

  // Pairs as unpack_codes() orders dims, and dims one after the other.
  __device__ __forceinline__ static void to_floats(const uint32_t (&pairs)[4], float (&dims)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int dim = i % 2 * 4 + i / 2;
      dims[dim] = ptx::low_f16(pairs[i]);
      dims[dim + 2] = ptx::high_f16(pairs[i]);
    }
  }
  __device__ __forceinline__ static void to_pairs(const float (&dims)[8], uint32_t (&pairs)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int dim = i % 2 * 4 + i / 2;
      pairs[i] = ptx::f16x2(dims[dim], dims[dim + 2]);
    }
  }

  // [rank][kDim] in the units of unpacked keys.
  __device__ __forceinline__ float* directions() const {
    return reinterpret_cast<float*>(shared_ + kDirections);
  }

  __device__ void load_directions() const {
    const float* basis = p_.residual_basis + steps(stats_row_, p_.residual_basis_strides[0]) +
                         steps(head_, p_.residual_basis_strides[1]);
    const float unit = power_of_two(kKeyExponent) / k_scale();
    for (int i = thread_; i < p_.residual_rank * kDim; i += kThreads) {
      const int direction = i / kDim;
      const float scale = p_.residual_scale[steps(stats_row_, p_.residual_scale_strides[0]) +
                                            steps(head_, p_.residual_scale_strides[1]) +
                                            steps(direction, p_.residual_scale_strides[2])];
      directions()[i] =
          basis[steps(direction, p_.residual_basis_strides[2]) + i % kDim] * (scale * unit);
    }
  }

  __device__ __forceinline__ float k_scale() const {
    return scale_of(p_.k_scale, p_.k_scale_strides, stats_row_, head_);
  }

  // ---- values ----

  // Sixteen tokens whose words one thread turns meet different banks.
  __device__ static int chunk_at(int token, int chunk) {
    return token * kDim + (chunk ^ (token / 16 % kChunks)) * 16;
  }

  __device__ void start_values() const {
    for (int i = thread_; i < kTileKeys * kChunks; i += kThreads) {
      const int token = i / kChunks;
      const int chunk = i % kChunks;
      std::byte* const to = shared_ + kValues + chunk_at(token, chunk);
      if (token < tokens()) {
        ptx::copy_async<16>(ptx::shared_address(to),
                            p_.v + offset(p_.v_strides, token) + chunk * 16);
      } else {
        *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
      }
    }
  }

  // A thread has four dims of sixteen tokens.
  __device__ void turn_values() const {
    constexpr int kGroups = kTileKeys / 16;
    const int group = thread_ % kGroups;
    const int quad = thread_ / kGroups;
    uint32_t nan = 0;
    if (quad < kDim / 4) nan = turn(group, quad);
    const bool has_nan = __syncthreads_or(nan != 0 ? 1 : 0) != 0;
    if (thread_ == 0) {
      cache_.has_nan[steps(to_head_, cache_.capacity / kTileKeys) + blockIdx.x] = has_nan ? 1 : 0;
    }
  }

  // Returns the NaN that were there.
  __device__ uint32_t turn(int group, int quad) const {
    uint32_t nan = 0;
    uint32_t rows[4][4];  // [dim][word]
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 16 * group + 2 * w + i % 2 + i / 2 * 8;
        words[i] = *reinterpret_cast<const uint32_t*>(shared_ + kValues +
                                                      chunk_at(token, quad / 4) + quad % 4 * 4);
        const uint32_t found = ptx::find_e4m3_nan(words[i]);
        words[i] &= ~((found >> 7) * 0xFFu);
        nan |= found;
      }
      const uint32_t low[2] = {__byte_perm(words[0], words[1], 0x5140),
                               __byte_perm(words[2], words[3], 0x5140)};
      const uint32_t high[2] = {__byte_perm(words[0], words[1], 0x7362),
                                __byte_perm(words[2], words[3], 0x7362)};
      rows[0][w] = __byte_perm(low[0], low[1], 0x5410);
      rows[1][w] = __byte_perm(low[0], low[1], 0x7632);
      rows[2][w] = __byte_perm(high[0], high[1], 0x5410);
      rows[3][w] = __byte_perm(high[0], high[1], 0x7632);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      std::byte* const row = cache_.values +
                             steps(to_head_ * kDim + 4 * quad + i, cache_.capacity) + place() +
                             16 * group;
      *reinterpret_cast<uint4*>(row) = make_uint4(rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
    }
    return nan;
  }

  const DecodeParams& p_;
  const UnpackedCache& cache_;
  const KeyTile& tile_;
  std::byte* shared_;
  int to_head_;
  int head_;
  int thread_;
  int stats_row_;
};

// Whether some row of the sequence sees a key of the tile.
__device__ bool is_needed(const DecodeParams& p, const KeyTile& tile) {
  const StepSequence& s = tile.step;
  const int diagonal = s.seqlen_k - s.seqlen_q;  // of query 0
  const bool is_cut = p.window_left >= 0 && p.window_left < diagonal;
  return (tile.tile + 1) * kTileKeys > (is_cut ? diagonal - p.window_left : 0);
}

template <int kDim>
__global__ void __launch_bounds__(kThreads)
    unpack_kernel(const __grid_constant__ Sm90PrefillParams params) {
  __shared__ __align__(16)
      std::byte shared[kTileKeys * kDim + kTileKeys / 16 * 4 + kMaxRank * kDim * sizeof(float)];
  __shared__ KeyTile tile;
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    const KeyTile found = find_key_tile(params.common.step, static_cast<int>(blockIdx.x), lane);
    if (lane == 0) tile = found;
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 32) *params.scheduler = 0;
  __syncthreads();
  if (tile.sequence < 0 || !is_needed(params.common.attention, tile)) return;
  Unpacker<kDim>(params, tile, shared).run();
}

}  // namespace

cudaError_t launch_unpack(int head_dim, const Sm90PrefillParams& params, cudaStream_t stream) {
  const dim3 grid(params.cache.capacity / kTileKeys, params.num_heads);
  const auto kernel = head_dim == 64 ? unpack_kernel<64> : unpack_kernel<128>;
  kernel<<<grid, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace mpfa::kernels::sm90
