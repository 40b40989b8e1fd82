// One row of append_kv's work: a token and a KV head, as plain pointers. The scalar reference and
// every fast kernel take the same description, so that one can stand in for the other.
#pragma once

#include <cstdint>

#include "mpfa/formats.h"

namespace mpfa::internal {

// What all rows of a call share.
struct AppendConfig {
  int head_dim = 0;
  int residual_rank = 0;  // 0: the cache has no k_residual
  int group_size = 0;     // query heads per KV head; 0: the cache has no delta_s
  ScaleRule scale_rule = ScaleRule::kSearch;
};

// The frozen statistics of one KV head, from one row of StatsView.
struct AppendStats {
  const float* k_mean = nullptr;          // [d]
  const float* q_mean = nullptr;          // [group_size, d], with delta_s
  int64_t q_mean_stride = 0;              // elements from one query head to the next
  const float* residual_basis = nullptr;  // [r, d], with k_residual
  int64_t residual_basis_stride = 0;
  const float* residual_scale = nullptr;  // [r], with k_residual
  float k_scale = 1.0f;
  float v_scale = 1.0f;
};

// Where the row's bytes go. Bf16 targets need not be aligned.
struct AppendTargets {
  uint8_t* k_codes = nullptr;  // [d / 2]
  E4m3* k_scales = nullptr;    // [d / 16]
  E4m3* v = nullptr;           // [d]
  Bf16* delta_s = nullptr;     // [group_size], or null
  int64_t delta_s_stride = 0;
  E4m3* k_residual = nullptr;  // [r], or null
  Bf16* k_first = nullptr;     // [d]; null unless the token starts a page of a cache that has it
};

}  // namespace mpfa::internal
