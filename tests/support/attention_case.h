// A random attention problem: cache, queries, tables and masks, made from a seed and a few numbers.
// Cache bytes are random rather than written by append_kv, so that every code, scale and sign
// occurs; everything that attention must never look at (slots past a length, pages of no sequence,
// padding rows of q) holds NaN bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mpfa/attention.h"
#include "support/test_tensor.h"

namespace mpfa::testing {

struct AttentionShape {
  std::vector<int32_t> seqlens_q = {1};
  std::vector<int32_t> seqlens_k = {100};
  int64_t num_kv_heads = 2;
  int64_t group_size = 4;
  int64_t head_dim = 64;
  int64_t page_size = 16;
  int64_t residual_rank = 0;
  bool delta_s = false;
  bool first_key = false;
  bool scales = false;      // k_scale and v_scale other than 1
  bool strided = false;     // q, out, lse, cache tensors and tables with gaps
  int64_t gap = 3;          // of so many elements, with `strided`
  bool zero_keys = false;   // every K^ is 0
  bool nan_inside = false;  // some valid slots of K and V are NaN
  bool sinks = false;
  bool decode_form = false;  // no cu_seqlens_q: every seqlens_q must be 1
  int64_t num_stats = 1;
  DLDataType q_type = kBF16;
  float q_magnitude = 1.0f;
  float mean_magnitude = 1.0f;   // of k_mean and, halved, of q_mean
  float scale_magnitude = 1.0f;  // of k_scale, with `scales`
  float delta_magnitude = 0.3f;
  float first_magnitude = 0.2f;
  float residual_magnitude = 1.0f;  // of residual_scale's factor
  AttentionParams params = {};
  int64_t kv_split_size = 0;
};

std::string describe(const AttentionShape& shape);

// What a kernel's arithmetic adds to the errors that FP32, or 16-bit q and out, explain.
struct Rounding {
  Rounding(double of_scores = 0.0,  // NOLINT(google-explicit-constructor)
           double of_probabilities = 0.0)
      : scores(of_scores), probabilities(of_probabilities) {}

  double scores;         // of the parts of a score, relative to their size
  double probabilities;  // of a row's probabilities, relative to each
};

class AttentionCase {
 public:
  AttentionCase(AttentionShape shape, uint32_t seed);

  // Fills out() and lse() with a value that no result has, so that a run that writes nothing shows.
  void poison_results();
  // Runs attention() into poisoned out() and lse().
  void run();
  // Runs the oracle and compares; every difference beyond what the type of q, the FP32 or BF16
  // arithmetic and `rounding` explain is a test failure.
  void expect_matches_reference(const Rounding& rounding = {});
  // Of out() against the oracle's, all rows together, by relative L2; rows with NaN do not count.
  double relative_error();

  const AttentionShape& shape() const { return shape_; }
  TestTensor& out() { return *out_; }
  TestTensor& lse() { return *lse_; }
  TestTensor& q() { return *q_; }
  TestTensor& v() { return *v_; }
  TestTensor& k_scales() { return *k_scales_; }
  TestTensor& k_mean() { return *k_mean_; }
  TestTensor& q_mean() { return *q_mean_; }
  TestTensor& k_codes() { return *k_codes_; }
  TestTensor& sinks() { return *sinks_; }
  TestTensor& block_table() { return *block_table_; }
  TestTensor& seq_lens_tensor() { return *seq_lens_; }
  const KvCacheView& cache() const { return cache_; }
  int64_t total_q() const { return total_q_; }
  int64_t num_q_heads() const { return shape_.num_kv_heads * shape_.group_size; }
  const DLTensor& seq_lens() { return *seq_lens_->ptr(); }
  const DLTensor* cu_seqlens_q() { return shape_.decode_form ? nullptr : cu_seqlens_q_->ptr(); }
  AttentionParams params();
  Plan make_plan() const;

 private:
  using Holder = std::unique_ptr<TestTensor>;
  Holder tensor(DLDataType dtype, const TestTensor::Shape& shape) const;
  void make_tables(std::mt19937& random);
  void make_cache(std::mt19937& random);
  void make_stats(std::mt19937& random);
  void make_queries(std::mt19937& random);
  void poison_hidden_slots();
  void put_nan_inside(std::mt19937& random);
  // The largest magnitude that the parts of a score of this row can have, as logits.
  double score_magnitude(int64_t row, int64_t q_head) const;

  AttentionShape shape_;
  int64_t total_q_ = 0;
  int64_t num_pages_ = 0;
  KvCacheView cache_;
  Holder k_codes_, k_scales_, v_, delta_s_, k_residual_, k_first_;
  Holder k_mean_, q_mean_, residual_basis_, residual_scale_, k_scale_, v_scale_, stats_index_;
  Holder block_table_, seq_lens_, cu_seqlens_q_, q_, out_, lse_, sinks_;
};

}  // namespace mpfa::testing
