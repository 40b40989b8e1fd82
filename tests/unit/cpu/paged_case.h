// Paged caches made from their bits, together with the keys and values that they stand for: what a
// test of attention needs to compute its own answer. Made without the library's cache writer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mpfa/attention.h"
#include "unit/cpu/tensor_box.h"

namespace mpfa::internal {

struct PagedCaseConfig {
  int64_t page_size = 16;
  int64_t head_dim = 64;
  int64_t num_q_heads = 2;
  int64_t num_kv_heads = 1;
  std::vector<int32_t> kv_lens = {40};
  std::vector<int32_t> q_lens = {40};
  int64_t residual_rank = 0;
  bool delta_s = false;
  bool first_key = false;
  int64_t num_stats = 1;  // > 1: sequences use different rows
  bool scales = false;    // k_scale and v_scale other than 1
  unsigned seed = 1;
};

// Every byte that no token owns is a NaN's: slots past a length, unused pages, unused statistics
// rows, k_first of pages that begin no sequence. Numbers are multiples of small powers of two, so
// that all products and compensations of docs/spec.md, section 2, are exact and
// q . key == S + rowbias holds to FP64 rounding.
class PagedCase {
 public:
  explicit PagedCase(const PagedCaseConfig& config);

  KvCacheView view() const;
  const PagedCaseConfig& config() const { return config_; }
  int64_t total_q() const { return q.size(0); }

  // The key or value of a token as exact numbers, mean and compensation included: [d].
  const std::vector<double>& key(int64_t b, int64_t token, int64_t kv_head) const {
    return keys_[b][token * config_.num_kv_heads + kv_head];
  }
  const std::vector<double>& value(int64_t b, int64_t token, int64_t kv_head) const {
    return values_[b][token * config_.num_kv_heads + kv_head];
  }

  TensorBox<float> q;  // [total_q, Hq, d]
  TensorBox<int32_t> block_table, seq_lens, cu_seqlens_q, stats_index;
  TensorBox<uint8_t> k_codes;
  TensorBox<E4m3> k_scales, v, k_residual;
  TensorBox<Bf16> delta_s, k_first;
  TensorBox<float> k_mean, q_mean, residual_basis, residual_scale, k_scale, v_scale;

 private:
  void make_tables();
  void make_tensors();
  void make_stats(int64_t row);
  void make_token(int64_t b, int64_t token, int64_t kv_head);
  int random(int low, int high);  // in [low, high]

  PagedCaseConfig config_;
  std::vector<std::vector<std::vector<double>>> keys_, values_;
  uint64_t state_;
};

struct ExpectedAttention {
  std::vector<double> out;  // [total_q, Hq, d]
  std::vector<double> lse;  // [total_q, Hq]
};

// Attention straight from its definition over key() and value(): long double, no maximum
// subtracted, no statistics.
ExpectedAttention expected_attention(const PagedCase& c, const AttentionParams& params);

}  // namespace mpfa::internal
