#include "support/attention_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "cpu/reference.h"

namespace mpfa::testing {
namespace {

constexpr DLDataType kF64{kDLFloat, 64, 1};

std::string list(const std::vector<int32_t>& values) {
  std::ostringstream text;
  for (int32_t v : values) text << v << ' ';
  return text.str();
}

float uniform(std::mt19937& random, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random);
}

// Any finite e4m3 code whose magnitude lies in a range of scales or values.
uint8_t random_e4m3(std::mt19937& random, float magnitude) {
  return e4m3_from_float(magnitude * std::normal_distribution<float>()(random)).bits;
}

}  // namespace

std::string describe(const AttentionShape& s) {
  std::ostringstream text;
  text << "seqlens_q " << list(s.seqlens_q) << "seqlens_k " << list(s.seqlens_k) << "Hkv "
       << s.num_kv_heads << " G " << s.group_size << " d " << s.head_dim << " page " << s.page_size
       << " r " << s.residual_rank << " delta_s " << s.delta_s << " first_key " << s.first_key
       << " scales " << s.scales << " strided " << s.strided << " sinks " << s.sinks
       << " zero_keys " << s.zero_keys << " nan_inside " << s.nan_inside << " mean "
       << s.mean_magnitude << " scale " << s.scale_magnitude << " delta " << s.delta_magnitude
       << " first " << s.first_magnitude << " residual " << s.residual_magnitude << " decode_form "
       << s.decode_form << " stats " << s.num_stats << " type " << internal::dtype_string(s.q_type)
       << " magnitude " << s.q_magnitude << " causal " << s.params.causal << " window "
       << s.params.window_left << " softcap " << s.params.softcap << " split " << s.kv_split_size;
  return text.str();
}

AttentionCase::AttentionCase(AttentionShape shape, uint32_t seed) : shape_(std::move(shape)) {
  std::mt19937 random(seed);
  total_q_ = std::accumulate(shape_.seqlens_q.begin(), shape_.seqlens_q.end(), int64_t{0});
  make_tables(random);
  make_cache(random);
  make_stats(random);
  make_queries(random);
  poison_hidden_slots();
  if (shape_.nan_inside) put_nan_inside(random);
  poison_results();
}

AttentionCase::Holder AttentionCase::tensor(DLDataType dtype,
                                            const TestTensor::Shape& shape) const {
  if (shape_.strided) {
    return std::make_unique<TestTensor>(TestTensor::with_gaps(dtype, shape, shape_.gap));
  }
  return std::make_unique<TestTensor>(dtype, shape);
}

void AttentionCase::make_tables(std::mt19937& random) {
  const auto batch = static_cast<int64_t>(shape_.seqlens_k.size());
  int64_t max_pages = 1;
  int64_t used = 0;
  for (int32_t length : shape_.seqlens_k) {
    const int64_t pages = (length + shape_.page_size - 1) / shape_.page_size;
    max_pages = std::max(max_pages, pages);
    used += pages;
  }
  num_pages_ = used + 2;  // some pages belong to nobody
  std::vector<int32_t> order(num_pages_);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  block_table_ = tensor(kI32, {batch, max_pages});
  int64_t next = 0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t p = 0; p < max_pages; ++p) {
      const bool is_used = p * shape_.page_size < shape_.seqlens_k[b];
      // Entries past a sequence's length are never to be read: an impossible page number.
      block_table_->at<int32_t>(b, p) = is_used ? order[next++] : -7777;
    }
  }
  seq_lens_ = std::make_unique<TestTensor>(int_tensor(shape_.seqlens_k));
  std::vector<int32_t> cu = {0};
  for (int32_t n : shape_.seqlens_q) cu.push_back(cu.back() + n);
  cu_seqlens_q_ = std::make_unique<TestTensor>(int_tensor(cu));
  std::vector<int32_t> rows(batch);
  for (int32_t& row : rows) row = static_cast<int32_t>(random() % shape_.num_stats);
  stats_index_ = std::make_unique<TestTensor>(int_tensor(rows));
}

void AttentionCase::make_cache(std::mt19937& random) {
  const AttentionShape& s = shape_;
  const TestTensor::Shape rows = {num_pages_, s.num_kv_heads, s.page_size};
  const auto with = [&](int64_t inner) {
    TestTensor::Shape full = rows;
    full.push_back(inner);
    return full;
  };
  const auto fill = [&](TestTensor& t, auto value) {
    t.for_each(
        [&](const TestTensor::Shape& i) { t.at<uint8_t>(i[0], i[1], i[2], i[3]) = value(); });
  };
  k_codes_ = tensor(kU8, with(s.head_dim / 2));
  k_scales_ = tensor(kF8, with(s.head_dim / 16));
  v_ = tensor(kF8, with(s.head_dim));
  fill(*k_codes_, [&] { return static_cast<uint8_t>(random()); });
  fill(*k_scales_, [&] {
    return s.zero_keys ? uint8_t{0} : e4m3_from_float(std::exp2(uniform(random, -9, -1))).bits;
  });
  fill(*v_, [&] { return random_e4m3(random, std::exp2(uniform(random, -8, 1))); });
  cache_.k_codes = k_codes_->ptr();
  cache_.k_scales = k_scales_->ptr();
  cache_.v = v_->ptr();
  if (s.residual_rank > 0) {
    k_residual_ = tensor(kF8, with(s.residual_rank));
    fill(*k_residual_, [&] { return random_e4m3(random, 10); });
    cache_.k_residual = k_residual_->ptr();
  }
  if (s.delta_s) {
    delta_s_ = tensor(kBF16, {num_pages_, num_q_heads(), s.page_size});
    delta_s_->fill_normal(random(), s.delta_magnitude);
    cache_.delta_s = delta_s_->ptr();
  }
  if (s.first_key) {
    k_first_ = tensor(kBF16, {num_pages_, s.num_kv_heads, s.head_dim});
    k_first_->fill_normal(random(), s.first_magnitude);
    cache_.k_first = k_first_->ptr();
  }
  cache_.stats_index = stats_index_->ptr();
}

void AttentionCase::make_stats(std::mt19937& random) {
  const AttentionShape& s = shape_;
  const auto normal = [&](const TestTensor::Shape& shape, float scale) {
    Holder t = tensor(kF32, shape);
    t->fill_normal(random(), scale);
    return t;
  };
  k_mean_ = normal({s.num_stats, s.num_kv_heads, s.head_dim}, s.mean_magnitude);
  cache_.stats.k_mean = k_mean_->ptr();
  if (s.delta_s) {
    q_mean_ = normal({s.num_stats, num_q_heads(), s.head_dim}, 0.5f * s.mean_magnitude);
    cache_.stats.q_mean = q_mean_->ptr();
  }
  if (s.residual_rank > 0) {
    const float unit = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    residual_basis_ = normal({s.num_stats, s.num_kv_heads, s.residual_rank, s.head_dim}, unit);
    residual_scale_ = tensor(kF32, {s.num_stats, s.num_kv_heads, s.residual_rank});
    residual_scale_->fill(
        [&](const auto&) { return s.residual_magnitude * uniform(random, 0.005f, 0.02f); });
    cache_.stats.residual_basis = residual_basis_->ptr();
    cache_.stats.residual_scale = residual_scale_->ptr();
  }
  if (s.scales) {
    k_scale_ = tensor(kF32, {s.num_stats, s.num_kv_heads});
    v_scale_ = tensor(kF32, {s.num_stats, s.num_kv_heads});
    k_scale_->fill([&](const auto&) { return s.scale_magnitude * uniform(random, 0.5f, 3.0f); });
    v_scale_->fill([&](const auto&) { return uniform(random, 0.1f, 5.0f); });
    cache_.stats.k_scale = k_scale_->ptr();
    cache_.stats.v_scale = v_scale_->ptr();
  }
}

void AttentionCase::make_queries(std::mt19937& random) {
  const AttentionShape& s = shape_;
  const int64_t padding = s.decode_form ? 0 : 2;  // rows past cu_seqlens_q's last
  q_ = tensor(s.q_type, {total_q_ + padding, num_q_heads(), s.head_dim});
  out_ = tensor(s.q_type, {total_q_ + padding, num_q_heads(), s.head_dim});
  lse_ = tensor(kF32, {total_q_ + padding, num_q_heads()});
  q_->fill_normal(random(), s.q_magnitude);
  for (int64_t row = total_q_; row < total_q_ + padding; ++row) {
    for (int64_t h = 0; h < num_q_heads(); ++h) {
      for (int64_t i = 0; i < s.head_dim; ++i) q_->set({row, h, i}, NAN);
    }
  }
  if (s.sinks) {
    sinks_ = tensor(kF32, {num_q_heads()});
    sinks_->fill_normal(random(), 2.0f);
  }
}

// Slots past each length and pages of nobody: NaN in every tensor.
void AttentionCase::poison_hidden_slots() {
  const AttentionShape& s = shape_;
  std::vector<int64_t> valid(num_pages_, 0);
  for (size_t b = 0; b < s.seqlens_k.size(); ++b) {
    for (int64_t p = 0; p * s.page_size < s.seqlens_k[b]; ++p) {
      const int32_t page = block_table_->at<int32_t>(static_cast<int64_t>(b), p);
      valid[page] = std::min<int64_t>(s.page_size, s.seqlens_k[b] - p * s.page_size);
    }
  }
  const auto poison = [&](TestTensor* t) {
    if (t == nullptr) return;
    t->for_each([&](const TestTensor::Shape& i) {
      if (i[2] >= valid[i[0]]) t->at<uint8_t>(i[0], i[1], i[2], i[3]) = 0xFF;
    });
  };
  poison(k_codes_.get());
  poison(k_scales_.get());
  poison(v_.get());
  poison(k_residual_.get());
  if (delta_s_) {
    delta_s_->for_each([&](const TestTensor::Shape& i) {
      if (i[2] >= valid[i[0]]) delta_s_->set(i, NAN);
    });
  }
  if (k_first_) {
    std::vector<bool> first(num_pages_, false);
    for (size_t b = 0; b < s.seqlens_k.size(); ++b) {
      if (s.seqlens_k[b] > 0) first[block_table_->at<int32_t>(static_cast<int64_t>(b), 0)] = true;
    }
    k_first_->for_each([&](const TestTensor::Shape& i) {
      if (!first[i[0]]) k_first_->set(i, NAN);
    });
  }
}

void AttentionCase::put_nan_inside(std::mt19937& random) {
  const AttentionShape& s = shape_;
  for (size_t b = 0; b < s.seqlens_k.size(); ++b) {
    if (s.seqlens_k[b] == 0) continue;
    const auto token = static_cast<int64_t>(random() % static_cast<uint32_t>(s.seqlens_k[b]));
    const int64_t page = block_table_->at<int32_t>(static_cast<int64_t>(b), token / s.page_size);
    const auto head = static_cast<int64_t>(random() % s.num_kv_heads);
    const int64_t slot = token % s.page_size;
    if (random() % 2 == 0) {
      v_->at<uint8_t>(page, head, slot, static_cast<int64_t>(random() % s.head_dim)) = kE4m3NanCode;
    } else {
      k_scales_->at<uint8_t>(page, head, slot, 1) = kE4m3NanCode;
    }
  }
}

void AttentionCase::poison_results() {
  constexpr float kNeverAResult = -777.0f;
  out_->fill([&](const auto&) { return kNeverAResult; });
  lse_->fill([&](const auto&) { return kNeverAResult; });
}

AttentionParams AttentionCase::params() {
  AttentionParams params = shape_.params;
  if (sinks_) params.sinks = sinks_->ptr();
  return params;
}

Plan AttentionCase::make_plan() const {
  PlanParams p;
  p.batch_size = static_cast<int64_t>(shape_.seqlens_k.size());
  p.num_q_heads = num_q_heads();
  p.num_kv_heads = shape_.num_kv_heads;
  p.head_dim = shape_.head_dim;
  p.total_seqlen_q = q_->shape()[0];
  for (int32_t n : shape_.seqlens_k) p.max_seqlen_k = std::max<int64_t>(p.max_seqlen_k, n);
  p.kv_split_size = shape_.kv_split_size;
  return plan(p);
}

void AttentionCase::run() {
  poison_results();
  const Plan plan = make_plan();
  TestTensor workspace(kU8, {plan.workspace_bytes});
  attention(*out_->ptr(), lse_->ptr(), *q_->ptr(), cache_, *block_table_->ptr(), seq_lens(),
            cu_seqlens_q(), params(), plan, workspace.ptr());
}

double AttentionCase::score_magnitude(int64_t row, int64_t q_head) const {
  const AttentionShape& s = shape_;
  double q_sum = 0.0;
  for (int64_t i = 0; i < s.head_dim; ++i) q_sum += std::abs(q_->get({row, q_head, i}));
  if (s.delta_s) q_sum += 0.5 * s.mean_magnitude * static_cast<double>(s.head_dim);
  const double largest_k = s.zero_keys ? 0.0 : 6 * 0.5 * (s.scales ? 3.0 * s.scale_magnitude : 1.0);
  double sum = q_sum * largest_k;
  if (s.delta_s) sum += 4.0 * s.delta_magnitude;
  if (s.first_key) sum += 4.0 * s.first_magnitude * q_sum;
  if (s.residual_rank > 0) sum += 0.5 * s.residual_magnitude * q_sum;
  if (s.params.softcap > 0) sum += 4.0 * s.mean_magnitude * q_sum;  // rowbias joins the score
  return sum * s.params.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(s.head_dim)));
}

double AttentionCase::relative_error() {
  TestTensor expected(kF64, out_->shape());
  internal::attention_reference(*expected.ptr(), nullptr, *q_->ptr(), cache_, *block_table_->ptr(),
                                seq_lens(), cu_seqlens_q(), params());
  double norm = 0.0;
  double error = 0.0;
  for (int64_t row = 0; row < total_q_; ++row) {
    for (int64_t h = 0; h < num_q_heads(); ++h) {
      for (int64_t i = 0; i < shape_.head_dim; ++i) {
        const double want = expected.at<double>(row, h, i);
        if (std::isnan(want)) continue;
        const double difference = out_->get({row, h, i}) - want;
        norm += want * want;
        error += difference * difference;
      }
    }
  }
  return std::sqrt(error / norm);
}

void AttentionCase::expect_matches_reference(const Rounding& rounding) {
  TestTensor expected(kF64, out_->shape());
  TestTensor expected_lse(kF64, lse_->shape());
  internal::attention_reference(*expected.ptr(), expected_lse.ptr(), *q_->ptr(), cache_,
                                *block_table_->ptr(), seq_lens(), cu_seqlens_q(), params());
  const bool is_fp32 = shape_.q_type.bits == 32;
  constexpr double kLargest = std::numeric_limits<float>::max();
  for (int64_t row = 0; row < total_q_; ++row) {
    for (int64_t h = 0; h < num_q_heads(); ++h) {
      const std::string where = " of row " + std::to_string(row) + " head " + std::to_string(h);
      // FP32 sums of large scores err by their size, and so does what is left when they cancel.
      const double score_error =
          ((is_fp32 ? 2e-7 : 1e-6) + rounding.scores) * score_magnitude(row, h);
      // BF16 and FP16: rounding P to BF16 (2^-9 of each term) and the output to its type. FP32:
      // sums of products in another order.
      const double relative =
          (is_fp32 ? 2e-5 : 1e-2) + std::min(score_error, 0.02) + rounding.probabilities;
      const double want_lse = expected_lse.at<double>(row, h);
      const double got_lse = lse_->get({row, h});
      if (std::isinf(want_lse) || std::isnan(want_lse)) {
        ASSERT_TRUE(got_lse == want_lse || (std::isnan(got_lse) && std::isnan(want_lse)))
            << "lse" << where << ": " << got_lse << ", want " << want_lse;
      } else {
        const double near = std::clamp(want_lse, -kLargest, kLargest);
        const double tolerance =
            (is_fp32 ? 2e-5 : 2e-4) * (1 + std::abs(near)) + score_error + rounding.probabilities;
        ASSERT_NEAR(got_lse, near, tolerance) << "lse" << where;
      }
      double norm = 0;
      double error = 0;
      for (int64_t i = 0; i < shape_.head_dim; ++i) {
        const double want = expected.at<double>(row, h, i);
        const double got = out_->get({row, h, i});
        ASSERT_EQ(std::isnan(got), std::isnan(want)) << "out" << where << " element " << i;
        if (std::isnan(want)) continue;
        norm += want * want;
        error += (got - want) * (got - want);
      }
      // V averages out over many keys while the error of its terms does not: a floor by V's own
      // size.
      const double floor = (is_fp32 ? 1e-6 : 2e-3) * std::sqrt(shape_.head_dim) *
                           (shape_.scales ? 3.0 : 1.0) * (std::isinf(want_lse) ? 0.0 : 1.0);
      // A softcap far above 1 turns logits that differ into ones that FP32 cannot tell apart.
      const bool blurred = shape_.params.softcap > 0 && score_error > 0.1;
      if (std::isnan(want_lse) || blurred) continue;
      ASSERT_LE(std::sqrt(error), relative * std::sqrt(norm) + floor) << "out" << where;
    }
  }
}

}  // namespace mpfa::testing
