// What the host hands to the decode kernels, and what the schedule kernel hands to the attention
// kernel through the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/any/paged_strides.h"

namespace mpfa::kernels {

inline constexpr int kTileTokens = 32;  // keys that a warp takes at a time
inline constexpr int kMaxStages = 2;    // tiles of a warp in shared memory
inline constexpr int kMaxRank = 16;     // of the residual
inline constexpr int kRecordPages = 128;

// A part of the keys of one pair: a tile of query rows of one sequence and KV head. The CTA that
// has it owns all of its tiles [tile_begin, tile_begin + num_tiles).
struct alignas(16) DecodeSegment {
  int32_t sequence;
  int32_t kv_head;
  int32_t tile_begin;
  int32_t num_tiles;
  int32_t first_row;  // of the sequence's and head's rows: row r is query r / G, head r % G of it
  int32_t first_position;  // first_row / G
  int32_t first_head;      // first_row % G
  int32_t q_begin;         // row of q where the sequence starts
  int32_t seqlen_q;
  int32_t seqlen_k;
  int32_t stats_row;
  int32_t part;  // of the pair's parts, in the order of keys
  int32_t num_parts;
  int32_t num_sharers;  // CTAs that have parts of the pair
  int32_t first_slot;   // of part 0's partial state, and of the pair's counter
  int32_t other_slots;  // part p > 0 has slot other_slots + p
  int32_t first_page;   // of the sequence, if the part has token 0
  int32_t unused[2];
};
static_assert(sizeof(DecodeSegment) == 80);

// Where a part's partial state lies.
constexpr int64_t partial_slot(const DecodeSegment& segment) {
  return segment.part == 0 ? segment.first_slot : segment.other_slots + segment.part;
}

struct alignas(16) DecodeRecordHead {
  int32_t first_segment;  // in the list of segments
  int32_t num_segments;
  int32_t num_launches;  // since the schedule was made; the CTA counts them itself
  int32_t last_sharers;  // of the last segment's pair, if that is not the first's; else 1
  int32_t last_slot;     // first_slot of that pair
  int32_t unused[3];
};

// What a CTA needs to start its first copies: one read of the workspace.
struct alignas(16) DecodeRecord {
  DecodeRecordHead head;
  DecodeSegment segment;  // the first
  // Pages of its first tiles; two each where a page has 16 tokens.
  int32_t pages[kRecordPages];
};
static_assert(sizeof(DecodeRecord) == 624);

// Where things lie in the workspace, in bytes.
struct DecodeWorkspace {
  int64_t segments = 0;
  int64_t counters = 0;  // int32: CTAs that have begun work on a pair; zero between launches
  int64_t partials = 0;  // [2][num_slots]: launches take turns
  int64_t total_bytes = 0;
  int32_t num_ctas = 0;
  int32_t max_pairs = 0;
  int32_t num_slots = 0;
  int32_t state_bytes = 0;  // of a partial state
};

// Bytes of a row's partial state: FP16 output, then offset and sum (merge.cuh).
constexpr int partial_row_bytes(int head_dim) { return 2 * head_dim + 8; }

// In every word of a partial state that has not been written yet. Conversions make no such NaN.
inline constexpr uint32_t kNotWritten = 0xFFFFFFFFu;

struct ScheduleParams {
  std::byte* workspace = nullptr;
  DecodeWorkspace layout = {};
  const int32_t* seq_lens = nullptr;      // [b]
  const int32_t* cu_seqlens_q = nullptr;  // [b + 1], or null: one row each
  const int32_t* block_table = nullptr;   // [b, max_pages]
  const int32_t* stats_index = nullptr;   // [b], or null: row 0
  int64_t seq_lens_stride = 1;
  int64_t cu_seqlens_q_stride = 1;
  int64_t block_table_stride = 0;
  int64_t block_table_inner_stride = 1;
  int64_t stats_index_stride = 1;
  int32_t* error_count = nullptr;  // lengths, rows and statistics out of range; or null
  int32_t batch_size = 0;
  int32_t max_pages = 0;
  int32_t page_size = 0;
  int32_t num_kv_heads = 0;
  int32_t num_stats = 1;
  int32_t group_size = 0;
  int32_t total_seqlen_q = 0;
  int32_t max_seqlen_q = 0;
  int32_t max_seqlen_k = 0;
  int32_t window_left = -1;
  int32_t rows_per_tile = 8;
  int32_t split_tiles = 0;  // > 0: parts of so many tiles each, whatever the batch
};

// In the order in which a CTA looks at it: every 64 bytes that it looks at for the first time cost
// it some hundred cycles.
struct DecodeParams {
  alignas(64) std::byte v_map[128] = {};  // CUtensorMap of v, for bulk copies
  // To read the record.
  alignas(64) std::byte* workspace = nullptr;
  DecodeWorkspace layout = {};
  int32_t num_pages = 0;
  int32_t page_shift = 0;  // a page has 1 << page_shift tokens
  // To start reading queries and the first tiles.
  alignas(64) const std::byte* q = nullptr;  // [total_q, Hq, d] BF16 or FP16
  int64_t q_row_stride = 0, q_head_stride = 0;
  const std::byte* k_codes = nullptr;
  const std::byte* k_scales = nullptr;
  int32_t group_size = 0;
  uint32_t group_inverse = 0;  // 2^32 / group_size, rounded up; 0 for 1
  int32_t q_rows = 0;
  int32_t residual_rank = 0;
  int32_t is_bf16 = 1;      // q and out; else FP16
  int32_t evict_first = 1;  // bulk copies: what is read leaves the L2 cache first
  // Filled in by launch_decode(), from pointers below.
  bool needs_rowbias = false;
  bool has_k_scale = false;
  bool has_k_first = false;
  bool has_v_scale = false;
  alignas(64) PagedStrides k_codes_strides = {};
  PagedStrides k_scales_strides = {};
  int32_t causal = 1;
  int32_t window_left = -1;
  float softmax_scale = 1.0f;
  float softcap = 0.0f;
  alignas(64) float* lse = nullptr;       // [total_q, Hq], or null
  const float* sinks = nullptr;           // [Hq], or null
  const float* k_scale = nullptr;         // [stats, Hkv], or null: 1
  const std::byte* k_first = nullptr;     // or null
  const std::byte* k_residual = nullptr;  // or null
  PagedStrides k_residual_strides = {};
  std::byte* out = nullptr;  // as q
  int64_t out_row_stride = 0, out_head_stride = 0;
  // The rest.
  const std::byte* v = nullptr;           // for copies by lanes
  const std::byte* delta_s = nullptr;     // or null
  const float* k_mean = nullptr;          // [stats, Hkv, d]
  const float* q_mean = nullptr;          // [stats, Hq, d], with delta_s
  const float* residual_basis = nullptr;  // [stats, Hkv, r, d]
  const float* residual_scale = nullptr;  // [stats, Hkv, r]
  const float* v_scale = nullptr;         // [stats, Hkv], or null: 1
  const int32_t* block_table = nullptr;
  PagedStrides v_strides = {};
  PagedStrides delta_s_strides = {};  // of head: of a query head; of token: unused
  PagedStrides k_first_strides = {};  // of token: unused
  // Elements from now on.
  int64_t lse_row_stride = 0, lse_head_stride = 0;
  int64_t sinks_stride = 1;
  int64_t k_mean_strides[2] = {};  // of a row of statistics, of a head
  int64_t q_mean_strides[2] = {};
  int64_t residual_basis_strides[3] = {};
  int64_t residual_scale_strides[3] = {};
  int64_t k_scale_strides[2] = {};
  int64_t v_scale_strides[2] = {};
  int64_t block_table_stride = 0;
  int64_t block_table_inner_stride = 1;
  int32_t* error_count = nullptr;  // pages out of range; or null
};

}  // namespace mpfa::kernels
