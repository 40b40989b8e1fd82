// What a precision assignment makes of Q, K and V before any product is taken: the operands of the
// two matrix products as their formats hold them, and the compensation.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cpu/policy.h"

namespace mpfa::internal {

// Keys that one step of Algorithm 1 takes.
inline constexpr int64_t kKeyBlockSize = 128;

// One sequence of activations in FP32, [heads, rows, d].
struct Activations {
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t head_dim = 0;
  std::vector<float> values;

  const float* row(int64_t head, int64_t i) const {
    return values.data() + (head * rows + i) * head_dim;
  }
  float* row(int64_t head, int64_t i) { return values.data() + (head * rows + i) * head_dim; }
};

// Checks rank, type and finiteness.
Activations load_activations(const DLTensor& tensor, const char* name);

// Frozen statistics, as the policy uses them: 0 where it does not centre.
struct PolicyStats {
  std::vector<float> k_mean;          // [Hkv, d]
  std::vector<float> q_mean;          // [Hq, d]
  std::vector<float> residual_basis;  // [Hkv, r, d]
  std::vector<float> residual_scale;  // [Hkv, r]
};

PolicyStats make_stats(const Policy& policy, const DLTensor& q, const DLTensor& k,
                       const PolicyInputs& inputs);

// One KV head.
struct KeyValueOperands {
  int64_t padded = 0;               // tokens, rounded up to whole blocks of keys
  std::vector<float> centred;       // [tokens, d]  Kc, unquantised
  std::vector<float> k_transposed;  // [d, padded]  K^
  std::vector<float> v;             // [padded, d]  V^
  std::vector<float> residual;      // [r, padded]  p_scale * p
  std::vector<float> k_first;       // [d], empty without first key
};

KeyValueOperands make_key_value_operands(const Policy& policy, const Activations& k,
                                         const Activations& v, const PolicyStats& stats,
                                         int64_t kv_head);

// One query head: all rows of q.
struct QueryOperands {
  int num_terms = 1;
  std::array<std::vector<float>, 2> terms;  // [rows, d] each: the operands of the products
  std::vector<float> delta_s;               // [padded], empty without delta_s
  std::vector<float> u_q;                   // [rows, r]  U q_eff
  std::vector<float> q_first;               // [rows]     q_eff . k_first, empty without first key
};

QueryOperands make_query_operands(const Policy& policy, const Activations& q,
                                  const PolicyStats& stats, const KeyValueOperands& kv,
                                  int64_t q_head, int64_t group);

}  // namespace mpfa::internal
