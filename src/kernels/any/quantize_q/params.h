// What the host hands to the quantiser of queries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/any/append/params.h"

namespace mpfa::kernels {

inline constexpr int kMaxQueryDim = 1024;

struct QuantizeQParams {
  const std::byte* q = nullptr;           // [tokens, Hq, d], of any alignment
  const float* q_mean = nullptr;          // [stats, Hq, d], or null: 0
  const float* k_mean = nullptr;          // [stats, Hkv, d], with rowbias
  const float* residual_basis = nullptr;  // [stats, Hkv, r, d], with residual
  const std::byte* k_first = nullptr;     // [b, Hkv, d] BF16, with first_key
  std::byte* codes = nullptr;             // [tokens, Hq, d / 2]
  std::byte* scales = nullptr;            // [tokens, Hq, d / 16]
  std::byte* codes2 = nullptr;            // [tokens, Hq, d / 2], or null
  std::byte* scales2 = nullptr;           // [tokens, Hq, d / 16], with codes2
  float* rowbias = nullptr;               // [tokens, Hq], or null
  float* residual = nullptr;              // [tokens, Hq, r], or null
  float* first_key = nullptr;             // [tokens, Hq], or null
  int32_t* error_count = nullptr;         // tokens whose row of statistics is out of range; or null
  // Tokens of no sequence are neither read for good nor written.
  SequenceTable sequences = {};
  // Bytes from one token (sequence) and head to the next.
  int64_t q_strides[2] = {};
  int64_t k_first_strides[2] = {};
  int64_t codes_strides[2] = {};
  int64_t scales_strides[2] = {};
  int64_t codes2_strides[2] = {};
  int64_t scales2_strides[2] = {};
  // Elements from now on.
  int64_t q_mean_strides[2] = {};  // of a row of statistics, of a head
  int64_t k_mean_strides[2] = {};
  int64_t residual_basis_strides[3] = {};
  int64_t rowbias_strides[2] = {};  // of a token, of a head
  int64_t residual_strides[2] = {};
  int64_t first_key_strides[2] = {};
  int64_t num_tokens = 0;
  int32_t num_q_heads = 0;
  int32_t num_kv_heads = 1;  // divides num_q_heads
  int32_t residual_rank = 0;
  int32_t head_dim = 0;  // a multiple of 16, at most 1024; a power of two with dot products
  InputType type = InputType::kBf16;
  ScaleRule scale_rule = ScaleRule::kSearch;
  // Filled in by launch_quantize_q().
  bool input_vectors = false;   // q can be read 16 bytes at a time
  bool stats_vectors = false;   // q_mean likewise
  bool output_vectors = false;  // codes can be written 8 bytes at a time
};

}  // namespace mpfa::kernels
