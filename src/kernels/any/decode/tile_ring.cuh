// A warp's tiles of keys on their way from global to shared memory. Of each of its CTA's segments a
// warp takes every W-th tile; two of them are under way. No warp waits for another here, and the
// order of a warp's tiles depends on nothing but the segment.
#pragma once

#include "kernels/any/decode/config.h"
#include "kernels/any/steps.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"

namespace mpfa::kernels {

// Byte `at` of a row of V in shared memory: the 16-byte pieces of rows are exchanged as a tensor
// map's 128-byte (64-byte) swizzle does, so that reads down a column of rows meet different banks.
template <int kRowBytes>
__device__ __forceinline__ int swizzled(int row, int at) {
  constexpr int kRowsPerLine = 128 / kRowBytes;
  constexpr int kPieces = kRowBytes / 16;
  return row * kRowBytes + (at ^ (row / kRowsPerLine % kPieces * 16));
}

// Shared memory of a tile.
struct TileSlot {
  uint32_t values;
  uint32_t keys;     // codes, and behind them what SharedMemoryPlan says
  uint32_t barrier;  // K is there; + 8: V is there
};

template <class Config>
class TileRing {
 public:
  __device__ TileRing(const DecodeParams& params, const SharedMemoryPlan& plan, uint32_t shared,
                      int warp, int num_warps, int lane)
      : p_(params), plan_(plan), shared_(shared), warp_(warp), num_warps_(num_warps), lane_(lane) {}

  // The entry of the record that begin() needs.
  __device__ __forceinline__ int page_of_record(const DecodeRecord& record) const {
    return __ldg(record.pages + min(record_entry(), kRecordPages - 1));
  }

  __device__ __forceinline__ void init_barriers() const {
    if (lane_ == 0) {
      constexpr uint32_t kArrivals = Config::kIsBulk ? 1 : 32;
#pragma unroll
      for (int stage = 0; stage < kMaxStages; ++stage) {
        ptx::barrier_init(slot_of(stage).barrier, kArrivals);
        ptx::barrier_init(slot_of(stage).barrier + 8, kArrivals);
      }
#if __CUDA_ARCH__ >= 900
      ptx::fence_barrier_init();
#endif
    }
    __syncwarp();
  }

  // The first batch; its pages come from the record.
  __device__ __forceinline__ void begin(const DecodeRecordHead& head, const DecodeSegment& segment,
                                        int page) {
#if __CUDA_ARCH__ >= 900
    policy_ = p_.evict_first != 0 ? ptx::evict_first_policy() : ptx::evict_unchanged_policy();
#endif
    first_segment_ = head.first_segment;
    num_segments_ = head.num_segments;
    batch_.tile = segment.tile_begin + warp_;
    batch_.end = segment.tile_begin + segment.num_tiles;
    batch_.sequence = segment.sequence;
    batch_.kv_head = segment.kv_head;
    batch_.seqlen_k = segment.seqlen_k;
    batch_.count = count_tiles(batch_, record_entry() < kRecordPages);
    batch_.page = page;
    read_ahead(1);
    begin_batch();
  }

  // Starts the copies of the first tiles, whose pages the record tells.
  __device__ __forceinline__ void start_first() {
#pragma unroll 1
    for (int i = 0; i < kMaxStages && taken_ < batch_.count; ++i) start_tile();
  }

  // Starts copies until all slots are in use or this warp has no more tiles.
  __device__ __forceinline__ void fill() {
#pragma unroll 1
    while (started_ - used_ < kMaxStages) {
      if (!has_next_) find_next();
      if (taken_ == batch_.count) {
        if (next_.count == 0) return;
        batch_ = next_;
        has_next_ = false;
        begin_batch();
      }
      start_tile();
    }
  }

  __device__ __forceinline__ TileSlot slot_in_use() const {
    return slot_of(static_cast<int>(used_ % kMaxStages));
  }
  __device__ __forceinline__ void wait_keys(const TileSlot& slot) const {
    ptx::barrier_wait(slot.barrier, used_ / kMaxStages & 1);
  }
  __device__ __forceinline__ void wait_values(const TileSlot& slot) const {
    ptx::barrier_wait(slot.barrier + 8, used_ / kMaxStages & 1);
  }
  // The slot in use is free again.
  __device__ __forceinline__ void release() {
    __syncwarp();
    ++used_;
  }

 private:
  static constexpr int kValueBytes = kTileTokens * Config::kHeadDim;
  static constexpr int kTileShift = 5;
  static_assert(1 << kTileShift == kTileTokens);

  // Consecutive tiles of this warp in one segment. Lane i has the page of tile i; where a page is
  // half a tile, lanes 2 i and 2 i + 1.
  struct Batch {
    int segment = 0;
    int tile = 0;  // of the sequence
    int end = 0;   // of the segment's tiles
    int sequence = 0;
    int kv_head = 0;
    int seqlen_k = 0;
    int count = 0;
    int page = 0;  // as the table has it, until begin_batch()
  };

  // What a batch needs to know of a segment.
  struct SegmentHead {
    int4 words;  // sequence, kv_head, tile_begin, num_tiles
    int seqlen_k;
  };

  __device__ __forceinline__ TileSlot slot_of(int stage) const {
    const int slot = warp_ * kMaxStages + stage;
    return {shared_ + slot * kValueBytes, shared_ + plan_.tiles + slot * plan_.tile_bytes,
            shared_ + plan_.barriers + slot * kSlotBarrierBytes};
  }

  // Pages of a tile less one.
  __device__ __forceinline__ int halves() const { return p_.page_shift < kTileShift ? 1 : 0; }

  __device__ __forceinline__ const DecodeSegment* segment(int index) const {
    return reinterpret_cast<const DecodeSegment*>(p_.workspace + p_.layout.segments) +
           first_segment_ + index;
  }

  __device__ __forceinline__ int checked_page(int page) const {
    if (static_cast<uint32_t>(page) < static_cast<uint32_t>(p_.num_pages)) return page;
    if (p_.error_count != nullptr) atomicAdd(p_.error_count, 1);
    return 0;
  }

  __device__ __forceinline__ int record_entry() const {
    const int ordinal = lane_ >> halves();
    return ((warp_ + ordinal * num_warps_) << halves()) + (lane_ & halves());
  }

  // The batch's tiles: up to one a lane, those whose lanes have `is_known`.
  __device__ __forceinline__ int count_tiles(const Batch& batch, bool is_known) const {
    const int tile = batch.tile + (lane_ >> halves()) * num_warps_;
    return __popc(__ballot_sync(~0u, is_known && tile < batch.end)) >> halves();
  }

  // Starts reading the head of a segment. Nobody looks at it before it is needed: under load an
  // answer takes as long as all copies that are under way.
  __device__ __forceinline__ void read_ahead(int index) {
    if (index >= num_segments_) return;
    const DecodeSegment* from = segment(index);
    ahead_.words = __ldg(reinterpret_cast<const int4*>(from));
    ahead_.seqlen_k = __ldg(&from->seqlen_k);
  }

  // What comes after batch_: in its segment, or in a later one. Its pages are asked for here and
  // looked at when it begins.
  __device__ __forceinline__ void find_next() {
    has_next_ = true;
    next_ = batch_;
    next_.tile += batch_.count * num_warps_;
    next_.count = 0;
#pragma unroll 1
    while (next_.tile >= next_.end) {
      if (next_.segment + 1 >= num_segments_) return;
      ++next_.segment;
      next_.sequence = ahead_.words.x;
      next_.kv_head = ahead_.words.y;
      next_.tile = ahead_.words.z + warp_;
      next_.end = ahead_.words.z + ahead_.words.w;
      next_.seqlen_k = ahead_.seqlen_k;
      read_ahead(next_.segment + 1);
    }
    next_.count = count_tiles(next_, true);
    const int ordinal = lane_ >> halves();
    if (ordinal >= next_.count) return;
    const int token =
        ((next_.tile + ordinal * num_warps_) << kTileShift) + ((lane_ & halves()) << p_.page_shift);
    const int column = min(token, next_.seqlen_k - 1) >> p_.page_shift;
    next_.page = __ldg(p_.block_table + next_.sequence * p_.block_table_stride +
                       column * p_.block_table_inner_stride);
  }

  __device__ __forceinline__ static int64_t offset(const PagedStrides& strides, int page, int head,
                                                   int token) {
    return steps(page, strides.page) + steps(head, strides.head) + steps(token, strides.token);
  }

  // Token of its page with which tile number `ordinal` of the batch begins.
  __device__ __forceinline__ int token_in_page(int ordinal) const {
    return ((batch_.tile + ordinal * num_warps_) << kTileShift) & ((1 << p_.page_shift) - 1);
  }

  // Every lane finds where its tile's bytes lie.
  __device__ __forceinline__ void begin_batch() {
    taken_ = 0;
    if (lane_ >> halves() < batch_.count) batch_.page = checked_page(batch_.page);
    const int token = token_in_page(lane_ >> halves());
    codes_ = offset(p_.k_codes_strides, batch_.page, batch_.kv_head, token);
    scales_ = offset(p_.k_scales_strides, batch_.page, batch_.kv_head, token);
    if (p_.residual_rank > 0) {
      residual_ = offset(p_.k_residual_strides, batch_.page, batch_.kv_head, token);
    }
  }

  __device__ __forceinline__ void start_tile() {
    const TileSlot slot = slot_of(static_cast<int>(started_ % kMaxStages));
    if constexpr (Config::kIsBulk) {
#if __CUDA_ARCH__ >= 900
      bulk_copies(slot);
#endif
    } else {
      lane_copies(slot);
    }
    ++started_;
    ++taken_;
  }

  // The query heads whose delta_s a tile of rows needs, in the order of its rows.
  __device__ __forceinline__ int delta_heads() const { return min(p_.group_size, Config::kRows); }
  __device__ __forceinline__ int delta_head(int i) const {
    const int first = __ldg(&segment(batch_.segment)->first_head);
    return batch_.kv_head * p_.group_size + (first + i) % p_.group_size;
  }

#if __CUDA_ARCH__ >= 900
  __device__ __forceinline__ void bulk_copies(const TileSlot& slot) const {
    constexpr int kHalf = kTileTokens / 2;
    if (halves() == 0) {
      bulk_copy_rows<kTileTokens>(slot, 0, taken_);
    } else {
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        bulk_copy_rows<kHalf>(slot, half * kHalf, 2 * taken_ + half);
      }
    }
  }

  // Rows [first, first + kRows) of a tile, which lie in one page. Lane `from` knows where.
  template <int kRows>
  __device__ __forceinline__ void bulk_copy_rows(const TileSlot& slot, int first, int from) const {
    const int rank = p_.residual_rank;
    const bool has_delta = Config::kHasExtra && p_.delta_s != nullptr;
    const int64_t codes = __shfl_sync(~0u, codes_, from);
    const int64_t scales = __shfl_sync(~0u, scales_, from);
    const int page = __shfl_sync(~0u, batch_.page, from);
    const int64_t residual = rank > 0 ? __shfl_sync(~0u, residual_, from) : 0;
    if (ptx::elect_one()) {
      if (first == 0) {
        uint32_t key_bytes = kTileTokens * (Config::kCodesRow + Config::kScalesRow + rank);
        if (has_delta) key_bytes += delta_heads() * kTileTokens * 2;
        ptx::barrier_expect(slot.barrier, key_bytes);
        ptx::barrier_expect(slot.barrier + 8, kValueBytes);
      }
      const uint32_t scales_to = slot.keys + Config::kScalesAt;
      ptx::bulk_copy(slot.keys + first * Config::kCodesRow, p_.k_codes + codes,
                     kRows * Config::kCodesRow, slot.barrier, policy_);
      ptx::bulk_copy(scales_to + first * Config::kScalesRow, p_.k_scales + scales,
                     kRows * Config::kScalesRow, slot.barrier, policy_);
      if (rank > 0) {
        ptx::bulk_copy(slot.keys + Config::kResidualAt + first * rank, p_.k_residual + residual,
                       kRows * rank, slot.barrier, policy_);
      }
      ptx::tensor_copy(slot.values + first * Config::kHeadDim, p_.v_map, 0, token_in_page(taken_),
                       batch_.kv_head, page, slot.barrier + 8, policy_);
      if (has_delta) bulk_copies_of_delta(slot, page, first, kRows);
    }
    __syncwarp();
  }

  __device__ __forceinline__ void bulk_copies_of_delta(const TileSlot& slot, int page, int at,
                                                       int rows) const {
#pragma unroll 1
    for (int i = 0; i < delta_heads(); ++i) {
      ptx::bulk_copy(slot.keys + plan_.delta + (i * kTileTokens + at) * 2,
                     p_.delta_s + offset(p_.delta_s_strides, page, delta_head(i), 0) +
                         token_in_page(taken_) * 2,
                     rows * 2, slot.barrier, policy_);
    }
  }
#endif

  // Where row `row` of a tile lies.
  struct Place {
    int page;
    int token;
  };
  __device__ __forceinline__ Place place_of(int row) const {
    const int half = halves() != 0 ? row >> p_.page_shift : 0;
    const int page = __shfl_sync(~0u, batch_.page, (taken_ << halves()) + half);
    return {page, token_in_page(taken_) + row - (half << p_.page_shift)};
  }

  // A tensor's rows of a tile, kPiece bytes a copy, by all lanes.
  template <int kPiece, class To>
  __device__ __forceinline__ void copy_rows(const std::byte* base, const PagedStrides& strides,
                                            int row_bytes, To to) const {
    const int pieces = row_bytes / kPiece;  // 1 or more, so that all lanes do the same rounds
#pragma unroll 1
    for (int i = lane_; i < kTileTokens * pieces; i += 32) {
      const int row = i / pieces;
      const int at = i % pieces * kPiece;
      const Place place = place_of(row);
      ptx::copy_async<kPiece>(to(row, at),
                              base + offset(strides, place.page, batch_.kv_head, place.token) + at);
    }
  }

  __device__ __forceinline__ void lane_copies(const TileSlot& slot) const {
    const int rank = p_.residual_rank;
    copy_rows<16>(p_.k_codes, p_.k_codes_strides, Config::kCodesRow,
                  [&](int row, int at) { return slot.keys + row * Config::kCodesRow + at; });
    copy_rows<4>(p_.k_scales, p_.k_scales_strides, Config::kScalesRow, [&](int row, int at) {
      return slot.keys + Config::kScalesAt + row * Config::kScalesRow + at;
    });
    if (rank > 0) {
      copy_rows<4>(p_.k_residual, p_.k_residual_strides, rank, [&](int row, int at) {
        return slot.keys + Config::kResidualAt + row * rank + at;
      });
    }
    copy_rows<16>(p_.v, p_.v_strides, Config::kHeadDim, [&](int row, int at) {
      return slot.values + swizzled<Config::kHeadDim>(row, at);
    });
    if (p_.delta_s != nullptr) lane_copies_of_delta(slot);
    ptx::copies_arrive(slot.barrier);
    ptx::copies_arrive(slot.barrier + 8);
  }

  // Two tokens of a head a copy.
  __device__ __forceinline__ void lane_copies_of_delta(const TileSlot& slot) const {
    constexpr int kPairs = kTileTokens / 2;
    const int total = delta_heads() * kPairs;
#pragma unroll 1
    for (int first = 0; first < total; first += 32) {
      const int i = min(first + lane_, total - 1);
      const Place place = place_of(i % kPairs * 2);
      ptx::copy_async<4>(slot.keys + plan_.delta + i * 4,
                         p_.delta_s +
                             offset(p_.delta_s_strides, place.page, delta_head(i / kPairs), 0) +
                             place.token * 2);
    }
  }

  const DecodeParams& p_;
  const SharedMemoryPlan& plan_;
  uint32_t shared_;
  int first_segment_ = 0;
  int num_segments_ = 0;
  int warp_;
  int num_warps_;
  int lane_;
  uint64_t policy_ = 0;
  uint32_t started_ = 0;
  uint32_t used_ = 0;
  Batch batch_;
  int taken_ = 0;  // of the batch
  // Of this lane's tile, from the tensors' begin.
  int64_t codes_ = 0;
  int64_t scales_ = 0;
  int64_t residual_ = 0;
  Batch next_;
  bool has_next_ = false;
  SegmentHead ahead_ = {};  // of the segment after next_'s; on its way
};

}  // namespace mpfa::kernels
