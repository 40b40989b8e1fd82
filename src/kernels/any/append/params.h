// What the host hands to the cache writer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/any/input_type.h"
#include "kernels/any/paged_strides.h"
#include "mpfa/formats.h"

namespace mpfa::kernels {

// What picks a row of statistics. All of it null or 0: every token has row 0.
struct SequenceTable {
  const int32_t* cu_seqlens = nullptr;   // [b + 1], or null: one sequence of all tokens
  const int32_t* stats_index = nullptr;  // [b], or null: row 0
  int64_t cu_seqlens_stride = 1;
  int64_t stats_index_stride = 1;
  int32_t batch_size = 1;
  int32_t num_stats = 1;
};

inline constexpr int kAppendWarps = 4;                         // of a CTA, at most
inline constexpr int64_t kMaxAppendTokens = int64_t{1} << 30;  // counted in 32 bits

struct AppendParams {
  const std::byte* k = nullptr;           // [tokens, Hkv, d], of any alignment
  const std::byte* v = nullptr;           // likewise
  const int64_t* slots = nullptr;         // [tokens]: page * page_size + offset; -1 skips the token
  const float* k_mean = nullptr;          // [stats, Hkv, d]
  const float* q_mean = nullptr;          // [stats, Hq, d], with delta_s
  const float* residual_basis = nullptr;  // [stats, Hkv, r, d], with k_residual
  const float* residual_scale = nullptr;  // [stats, Hkv, r], with k_residual
  const float* k_scale = nullptr;         // [stats, Hkv], or null: 1
  const float* v_scale = nullptr;         // likewise
  std::byte* k_codes = nullptr;           // [pages, Hkv, page_size, d / 2]
  std::byte* k_scales = nullptr;          // [pages, Hkv, page_size, d / 16]
  std::byte* v_out = nullptr;             // [pages, Hkv, page_size, d]
  std::byte* delta_s = nullptr;           // [pages, Hq, page_size], or null
  std::byte* k_residual = nullptr;        // [pages, Hkv, page_size, r], or null
  std::byte* k_first = nullptr;           // [pages, Hkv, d], or null
  // Tokens that were not written though their slot is not -1: a slot or a row of statistics out of
  // range, a token past the last sequence. Null: not counted.
  int32_t* error_count = nullptr;
  SequenceTable sequences = {};
  // Bytes from one token and head to the next.
  int64_t k_token_stride = 0, k_head_stride = 0;
  int64_t v_token_stride = 0, v_head_stride = 0;
  PagedStrides k_codes_strides = {};
  PagedStrides k_scales_strides = {};
  PagedStrides v_out_strides = {};
  PagedStrides delta_s_strides = {};  // of head: of a query head
  PagedStrides k_residual_strides = {};
  PagedStrides k_first_strides = {};  // of token: unused
  // Elements from now on.
  int64_t slots_stride = 1;
  int64_t k_mean_strides[2] = {};  // of a row of statistics, of a head
  int64_t q_mean_strides[2] = {};
  int64_t residual_basis_strides[3] = {};
  int64_t residual_scale_strides[2] = {};
  int64_t k_scale_strides[2] = {};
  int64_t v_scale_strides[2] = {};
  int64_t num_tokens = 0;
  int64_t num_pages = 0;
  int32_t page_shift = 0;  // a page has 1 << page_shift tokens
  int32_t num_kv_heads = 0;
  int32_t group_size = 0;     // query heads of a KV head; used with delta_s
  int32_t residual_rank = 0;  // 0, 4, 8 or 16
  int32_t head_dim = 0;       // 64 or 128
  InputType type = InputType::kBf16;
  ScaleRule scale_rule = ScaleRule::kSearch;
  // Filled in by launch_append().
  bool input_vectors = false;   // K and V can be read 16 bytes at a time
  bool stats_vectors = false;   // statistics likewise
  bool output_vectors = false;  // the cache can be written in words
};

}  // namespace mpfa::kernels
