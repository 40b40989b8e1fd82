// Tiles of keys: copied as they lie in the pages, then unpacked once for all rows of the CTA into
// FP16 operands. While a tile is multiplied the next one is on its way.
#pragma once

#include "kernels/any/decode/scores.cuh"
#include "kernels/any/prefill/query.cuh"
#include "kernels/ptx/copy.cuh"

namespace mpfa::kernels {

// Keys of the sequence that some row of the CTA sees, and those that every row sees.
template <class Config>
struct PrefillView {
  int some_begin, some_end;
  int all_begin, all_end;

  __device__ __forceinline__ bool is_whole(int first) const {
    return first >= all_begin && first + Config::kKeys <= all_end;
  }
  __device__ __forceinline__ int first_tile() const { return some_begin / Config::kKeys; }
  __device__ __forceinline__ int end_tile() const {
    return some_begin < some_end ? (some_end + Config::kKeys - 1) / Config::kKeys : first_tile();
  }
};

template <class Config>
__device__ __forceinline__ PrefillView<Config> view_of_rows(const DecodeParams& p,
                                                            const DecodeSegment& segment) {
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

// This thread's number, found anew at every call: what follows from it is then not kept in
// registers from one tile to the next.
__device__ __forceinline__ int thread_again() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return static_cast<int>(thread);
}

template <class Config>
class PrefillTiles {
 public:
  __device__ PrefillTiles(const DecodeParams& params, const DecodeSegment& segment,
                          std::byte* shared)
      : p_(params), segment_(segment), shared_(shared) {}

  // Starts reading where a tile lies; start() of it is to follow.
  __device__ __forceinline__ void find_pages(int tile) {
    const int lane = thread_again() % 32;
    if (lane >= kPlaces) return;
    const int token = tile * Config::kKeys + lane * kPlaceTokens;
    const int column = min(token, segment_.seqlen_k - 1) >> p_.page_shift;
    page_ = p_.block_table[segment_.sequence * p_.block_table_stride +
                           column * p_.block_table_inner_stride];
  }

  // Starts the copies of a tile.
  __device__ __forceinline__ void start(int tile) {
    const int thread = thread_again();
    check_page(tile, thread);
    first_ = tile * Config::kKeys;
    copy_row(thread);
    if (Config::kHasExtra && p_.delta_s != nullptr) copy_delta(tile, thread);
  }

  // Of this thread's copies; a barrier is to follow.
  __device__ __forceinline__ void wait() const { ptx::wait_for_copies(); }

  // Makes operands of what has come. V of keys that no row sees becomes 0, whatever bytes it has:
  // 0 * NaN is NaN. So does a NaN of V where rows differ in the keys that they see, or where the
  // GPU does not convert it: true if there is one in this thread's part, and what it does to the
  // output is note_nan_values()'s.
  __device__ __forceinline__ bool unpack(int first, const PrefillView<Config>& view) const {
    const int thread = thread_again();
    unpack_keys(thread);
    if (p_.residual_rank > 0) unpack_residuals(thread);
    return view.is_whole(first) ? unpack_values<true>(first, view, thread)
                                : unpack_values<false>(first, view, thread);
  }

  // delta_s of a tile: a head's keys are Config::kDeltaRow bytes from the next head's.
  __device__ __forceinline__ const std::byte* delta_of(int tile) const {
    return shared_ + Config::kDelta +
           tile % 2 * Config::delta_heads(p_.group_size) * Config::kDeltaRow;
  }

 private:
  // Tokens of one page whatever its size.
  static constexpr int kPlaceTokens = 16;
  static constexpr int kPlaces = Config::kKeys / kPlaceTokens;

  __device__ __forceinline__ void check_page(int tile, int thread) {
    const int lane = thread % 32;
    if (static_cast<uint32_t>(page_) < static_cast<uint32_t>(p_.num_pages)) return;
    const int token = tile * Config::kKeys + lane * kPlaceTokens;
    const bool is_new = lane == 0 || (token & ((1 << p_.page_shift) - 1)) == 0;
    if (thread < kPlaces && is_new && token < segment_.seqlen_k && p_.error_count != nullptr) {
      atomicAdd(p_.error_count, 1);
    }
    page_ = 0;
  }

  __device__ __forceinline__ int token_in_page(int row) const {
    return (first_ + row) & ((1 << p_.page_shift) - 1);
  }
  __device__ __forceinline__ int page_of(int row) const {
    return __shfl_sync(~0u, page_, row / kPlaceTokens);
  }

  // Two threads have a row: one page to look up, one place in each tensor.
  __device__ __forceinline__ void copy_row(int thread) const {
    static_assert(Config::kThreads == 2 * Config::kKeys);
    const int row = thread / 2;
    const int64_t page = page_of(row);
    const int token = token_in_page(row);
    const auto in_cache = [&](const std::byte* base, const PagedStrides& strides) {
      return base + page * strides.page + segment_.kv_head * strides.head + token * strides.token;
    };
    copy_pieces<Config::kCodesRow>(in_cache(p_.k_codes, p_.k_codes_strides), Config::kRawCodes,
                                   thread);
    copy_pieces<Config::kHeadDim>(in_cache(p_.v, p_.v_strides), Config::kRawValues, thread);
    const int half = thread % 2 * 4;
    if (half < Config::kScalesRow) {
      ptx::copy_async<4>(shared_address(Config::kRawScales + row * Config::kScalesRow + half),
                         in_cache(p_.k_scales, p_.k_scales_strides) + half);
    }
    const std::byte* residuals = in_cache(p_.k_residual, p_.k_residual_strides);
#pragma unroll 1
    for (int at = half; at < p_.residual_rank; at += 8) {
      ptx::copy_async<4>(shared_address(Config::kRawResiduals + row * kMaxRank + at),
                         residuals + at);
    }
  }

  // A row's 32 bytes at a time, 16 a thread, dealt out so that 4 rows meet different banks.
  template <int kRowBytes>
  __device__ __forceinline__ void copy_pieces(const std::byte* from, int to, int thread) const {
    constexpr int kPairs = kRowBytes / 32;
    const int row = thread / 2;
    const uint32_t place = shared_address(to + row * kRowBytes);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int at = 32 * (i ^ (row / (4 / kPairs) % kPairs)) + 16 * (thread % 2);
      ptx::copy_async<16>(place + at, from + at);
    }
  }

  // Two tokens of a head a copy; a warp has a head's tile.
  __device__ __forceinline__ void copy_delta(int tile, int thread) const {
    static_assert(Config::kKeys == 64);
    const int heads = Config::delta_heads(p_.group_size);
    const int row = thread % 32 * 2;
    const int64_t page = int64_t{page_of(row)} * p_.delta_s_strides.page;
    const int token = token_in_page(row);
#pragma unroll 1
    for (int i = thread / 32; i < heads; i += Config::kWarps) {
      const int head = segment_.kv_head * p_.group_size + (segment_.first_head + i) % p_.group_size;
      ptx::copy_async<4>(ptx::shared_address(delta_of(tile) + i * Config::kDeltaRow + row * 2),
                         p_.delta_s + page + head * p_.delta_s_strides.head + token * 2);
    }
  }

  __device__ __forceinline__ uint32_t shared_address(int at) const {
    return ptx::shared_address(shared_) + at;
  }

  // A thread has 32 dims of a key at a time. Lanes are dealt out so that neither their reads nor
  // their writes meet in a bank.
  __device__ __forceinline__ void unpack_keys(int thread) const {
    constexpr int kPieces = Config::kCodesRow / 16;
    static_assert(Config::kThreads == 2 * Config::kKeys);
    const int key = thread / 2;
#pragma unroll
    for (int i = 0; i < kPieces / 2; ++i) {
      const int piece = thread % 2 + (kPieces == 4 ? 2 * (i ^ (key >> 1 & 1)) : 0);
      const uint4 codes = *reinterpret_cast<const uint4*>(shared_ + Config::kRawCodes +
                                                          key * Config::kCodesRow + piece * 16);
      const uint32_t both = *reinterpret_cast<const uint16_t*>(
          shared_ + Config::kRawScales + key * Config::kScalesRow + piece * 2);
      const uint32_t scales = ptx::e4m3x2_to_f16x2_with_nan(both);
      const uint32_t low = __byte_perm(scales, 0, 0x1010);
      const uint32_t high = __byte_perm(scales, 0, 0x3232);
      store_key(key, 4 * piece, codes.x, low);
      store_key(key, 4 * piece + 1, codes.y, low);
      store_key(key, 4 * piece + 2, codes.z, high);
      store_key(key, 4 * piece + 3, codes.w, high);
    }
  }

  __device__ __forceinline__ void store_key(int key, int chunk, uint32_t codes,
                                            uint32_t scale) const {
    uint32_t values[4];
    unpack_codes(codes, scale, values);
    *reinterpret_cast<uint4*>(shared_ + Config::kKeyTile + chunk_at<Config::kHeadDim>(key, chunk)) =
        make_uint4(values[0], values[1], values[2], values[3]);
  }

  // Columns past the rank are 0.
  __device__ __forceinline__ void unpack_residuals(int thread) const {
    const int key = thread / 2;
    const int half = thread % 2;
    const auto* from = reinterpret_cast<const uint32_t*>(shared_ + Config::kRawResiduals +
                                                         key * kMaxRank + half * 8);
    const uint32_t factor =
        reinterpret_cast<const RowScalars*>(shared_ + Config::kScalars)->residual_factor;
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (8 * half + 4 * i >= p_.residual_rank) continue;
      const uint32_t bytes = from[i];
      words[2 * i] = ptx::mul_f16x2(ptx::e4m3x2_to_f16x2_with_nan(bytes), factor);
      words[2 * i + 1] = ptx::mul_f16x2(ptx::e4m3x2_to_f16x2_with_nan(bytes >> 16), factor);
    }
    *reinterpret_cast<uint4*>(shared_ + Config::kResiduals + narrow_chunk_at(key, half)) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }

  // A thread has 16 dims of a key at a time; lanes as in unpack_keys().
  template <bool kIsWhole>
  __device__ __forceinline__ bool unpack_values(int first, const PrefillView<Config>& view,
                                                int thread) const {
    constexpr int kPieces = Config::kHeadDim / 16;
    constexpr int kRounds = Config::kKeys * kPieces / Config::kThreads;
    uint32_t found = 0;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int key = thread / 4 + i / (kPieces / 4) * (Config::kThreads / 4);
      const int piece = thread % 4 + (kPieces == 8 ? 4 * ((i ^ key) & 1) : 0);
      const uint4 bytes = *reinterpret_cast<const uint4*>(shared_ + Config::kRawValues +
                                                          key * Config::kHeadDim + piece * 16);
      uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
      if (!kIsWhole || !ptx::kConvertsE4m3) {
        const bool is_hidden = first + key < view.some_begin || first + key >= view.some_end;
#pragma unroll
        for (uint32_t& word : words) {
          if (is_hidden) word = 0;
          const uint32_t nan = ptx::find_e4m3_nan(word);
          found |= nan;
          word &= ~((nan >> 7) * 0xFFu);
        }
      }
      store_value(key, 2 * piece, words[0], words[1]);
      store_value(key, 2 * piece + 1, words[2], words[3]);
    }
    return found != 0;
  }

  __device__ __forceinline__ void store_value(int key, int chunk, uint32_t low,
                                              uint32_t high) const {
    *reinterpret_cast<uint4*>(shared_ + Config::kValueTile +
                              chunk_at<Config::kHeadDim>(key, chunk)) =
        make_uint4(ptx::e4m3x2_to_f16x2(low), ptx::high_e4m3x2_to_f16x2(low),
                   ptx::e4m3x2_to_f16x2(high), ptx::high_e4m3x2_to_f16x2(high));
  }

  const DecodeParams& p_;
  const DecodeSegment& segment_;
  std::byte* shared_;
  int page_ = 0;  // lane i: of tokens [16 i, +16) of the tile to start
  int first_ = 0;
};

}  // namespace mpfa::kernels
