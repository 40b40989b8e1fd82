#include "cpu/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/attention_args.h"
#include "core/parallel.h"
#include "cpu/reference_tensor.h"

namespace mpfa::internal {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr int64_t kTokensPerTask = 64;

using Vector = std::vector<double>;

double dot(const double* a, const double* b, int64_t size) {
  double sum = 0.0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// One sequence's keys and values of one KV head, as the cache's bytes define them (section 4).
struct SequenceKv {
  int64_t length = 0;
  int64_t rank = 0;
  Vector k_hat;    // [length, d]  K^ = (scale * code) * k_scale
  Vector v_hat;    // [length, d]  V^ = e4m3 * v_scale
  Vector p;        // [length, r]  p_scale * p, empty without k_residual
  Vector u;        // [r, d]       U
  Vector k_first;  // [d]          of the sequence's first page; 0 without k_first or without keys
  Vector k_mean;   // [d]
};

// Where a token of a sequence lies.
struct Slot {
  int64_t page;
  int64_t offset;
};

Slot slot_of(const AttentionInputs& in, int64_t b, int64_t token) {
  const int64_t page_size = in.cache.page_size;
  return {*in.block_table.at(b, token / page_size), token % page_size};
}

void read_token(const AttentionInputs& in, int64_t b, int64_t head, int64_t token, SequenceKv& kv) {
  const CacheTensors& cache = in.cache;
  const Slot slot = slot_of(in, b, token);
  const int64_t row = cache.stats_row(b);
  const int64_t d = cache.head_dim;
  for (int64_t c = 0; c < d; ++c) {
    const uint8_t pair = *cache.k_codes.at(slot.page, head, slot.offset, c / 2);
    const auto code = static_cast<uint8_t>(c % 2 == 0 ? pair & 0xF : pair >> 4);
    const E4m3 scale = *cache.k_scales.at(slot.page, head, slot.offset, c / kNvfp4BlockSize);
    // Both products are FP32: E, which the compensations hold, was taken against exactly this.
    kv.k_hat[token * d + c] = nvfp4_value(scale.bits, code) * cache.k_scale(row, head);
    const E4m3 v = *cache.v.at(slot.page, head, slot.offset, c);
    kv.v_hat[token * d + c] =
        static_cast<double>(e4m3_to_float(v)) * static_cast<double>(cache.v_scale(row, head));
  }
  for (int64_t j = 0; j < kv.rank; ++j) {
    const E4m3 p = *cache.k_residual.at(slot.page, head, slot.offset, j);
    const double p_scale = *cache.stats.residual_scale.at(row, head, j);
    kv.p[token * kv.rank + j] = p_scale * e4m3_to_float(p);
  }
}

SequenceKv read_sequence(const AttentionInputs& in, int64_t b, int64_t head) {
  const CacheTensors& cache = in.cache;
  const int64_t row = cache.stats_row(b);
  const int64_t d = cache.head_dim;
  SequenceKv kv;
  kv.length = in.seqlen_k(b);
  kv.rank = cache.residual_rank;
  kv.k_hat.resize(kv.length * d);
  kv.v_hat.resize(kv.length * d);
  kv.p.resize(kv.length * kv.rank);
  parallel_for_ranges(kv.length, kTokensPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) read_token(in, b, head, token, kv);
  });
  for (int64_t j = 0; j < kv.rank; ++j) {
    for (int64_t c = 0; c < d; ++c) {
      kv.u.push_back(*cache.stats.residual_basis.at(row, head, j, c));
    }
  }
  kv.k_first.assign(d, 0.0);
  for (int64_t c = 0; c < d; ++c) {
    if (cache.k_first && kv.length > 0) {
      kv.k_first[c] = bf16_to_float(*cache.k_first.at(slot_of(in, b, 0).page, head, c));
    }
    kv.k_mean.push_back(*cache.stats.k_mean.at(row, head, c));
  }
  return kv;
}

// One query row and what section 2 derives from it.
struct Query {
  Vector q;            // [d]
  Vector q_eff;        // [d]  q - q_mean where the cache has delta_s, else q
  Vector u_q;          // [r]  U q_eff
  double rowbias = 0;  // q . k_mean, with the full q
  double q_first = 0;  // q_eff . k_first
};

Query read_query(const AttentionInputs& in, const RealTensor& q, int64_t b, int64_t row,
                 int64_t q_head, const SequenceKv& kv) {
  const CacheTensors& cache = in.cache;
  const int64_t d = cache.head_dim;
  Query query;
  for (int64_t c = 0; c < d; ++c) {
    const auto value = static_cast<float>(q.load(row, q_head, c));
    const float mean = cache.delta_s ? *cache.stats.q_mean.at(cache.stats_row(b), q_head, c) : 0.0f;
    query.q.push_back(value);
    query.q_eff.push_back(value - mean);  // in FP32, as every kernel centres
  }
  for (int64_t j = 0; j < kv.rank; ++j) {
    query.u_q.push_back(dot(&kv.u[j * d], query.q_eff.data(), d));
  }
  query.rowbias = dot(query.q.data(), kv.k_mean.data(), d);
  query.q_first = dot(query.q_eff.data(), kv.k_first.data(), d);
  return query;
}

// Section 2: S_ij = q_eff . K^_j + [delta_s_j] + [(U q_eff) . (p_scale p_j)] + [j = 0: q_eff .
// k_first].
double score(const AttentionInputs& in, int64_t b, int64_t q_head, const Query& query,
             const SequenceKv& kv, int64_t j) {
  const int64_t d = in.cache.head_dim;
  double s = dot(query.q_eff.data(), &kv.k_hat[j * d], d);
  if (in.cache.delta_s) {
    const Slot slot = slot_of(in, b, j);
    s += bf16_to_float(*in.cache.delta_s.at(slot.page, q_head, slot.offset));
  }
  if (kv.rank > 0) s += dot(query.u_q.data(), &kv.p[j * kv.rank], kv.rank);
  if (j == 0) s += query.q_first;
  return s;
}

// Section 3: causal masks and windows are aligned at the bottom right.
bool visible(const AttentionInputs& in, int64_t i, int64_t j, int64_t seqlen_q, int64_t seqlen_k) {
  const int64_t behind = i + seqlen_k - seqlen_q - j;  // how far key j lies behind query i
  if (in.causal && behind < 0) return false;
  return in.window_left < 0 || behind <= in.window_left;
}

struct RowResult {
  Vector out;  // [d]
  double lse = kMinusInfinity;
};

// log(e^a + e^b).
double log_sum(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// rowbias is the same for every key of a row. Without softcap it cancels in the probabilities, so
// it joins LSE alone: beside a large one the scores would drown.
RowResult attend_row(const AttentionInputs& in, int64_t b, int64_t i, int64_t q_head,
                     const Query& query, const SequenceKv& kv) {
  const int64_t d = in.cache.head_dim;
  const bool capped = in.softcap > 0;
  std::vector<int64_t> keys;
  Vector x;  // logits of the visible keys, less `shift`
  const double shift = capped ? 0.0 : in.softmax_scale * query.rowbias;
  for (int64_t j = 0; j < kv.length; ++j) {
    if (!visible(in, i, j, in.seqlen_q(b), kv.length)) continue;
    const double s = score(in, b, q_head, query, kv, j);
    const double logit =
        capped ? in.softcap * std::tanh(in.softmax_scale * (s + query.rowbias) / in.softcap)
               : in.softmax_scale * s;
    if (logit == kMinusInfinity) continue;  // as good as hidden
    keys.push_back(j);
    x.push_back(logit);
  }
  RowResult result;
  result.out.assign(d, 0.0);
  if (keys.empty()) return result;  // output 0 and LSE -inf, sink or not

  const double m = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (const double logit : x) sum += std::exp(logit - m);
  const double lse = (m + shift) + std::log(sum);
  result.lse = in.sinks ? log_sum(lse, *in.sinks.at(q_head)) : lse;
  const double denominator = sum * std::exp(result.lse - lse);
  for (size_t n = 0; n < keys.size(); ++n) {
    const double p = std::exp(x[n] - m) / denominator;
    for (int64_t c = 0; c < d; ++c) result.out[c] += p * kv.v_hat[keys[n] * d + c];
  }
  return result;
}

// All rows of one sequence and the query heads of one KV head.
void attend(const AttentionInputs& in, const RealTensor& q, int64_t b, int64_t kv_head,
            const RealTensor& out, const RealTensor& lse) {
  if (in.seqlen_q(b) == 0) return;
  const SequenceKv kv = read_sequence(in, b, kv_head);
  const int64_t group = in.group_size;
  parallel_for(in.seqlen_q(b) * group, [&](int64_t n) {
    const int64_t i = n / group;
    const int64_t q_head = kv_head * group + n % group;
    const int64_t row = in.q_begin(b) + i;
    const Query query = read_query(in, q, b, row, q_head, kv);
    const RowResult result = attend_row(in, b, i, q_head, query, kv);
    for (int64_t c = 0; c < in.cache.head_dim; ++c) out.store(result.out[c], row, q_head, c);
    if (lse) lse.store(result.lse, row, q_head);
  });
}

struct PartialState {
  RealTensor out;
  RealTensor lse;
};

RowResult merge_row(const std::vector<PartialState>& parts, int64_t row, int64_t head, int64_t d) {
  double m = kMinusInfinity;
  for (const PartialState& part : parts) m = std::max(m, part.lse.load(row, head));
  RowResult result;
  result.out.assign(d, 0.0);
  double weights = 0.0;
  for (const PartialState& part : parts) {
    const double lse = part.lse.load(row, head);
    if (lse == kMinusInfinity) continue;  // counts for nothing, whatever its output holds
    const double weight = std::exp(lse - m);
    weights += weight;
    for (int64_t c = 0; c < d; ++c) result.out[c] += weight * part.out.load(row, head, c);
  }
  if (weights == 0.0) return result;  // no part has a key: (0, -inf)
  for (double& value : result.out) value /= weights;
  result.lse = m + std::log(weights);
  return result;
}

RealTensor check_lse_like(const DLTensor& lse, std::string_view name, const DLTensor& out) {
  const RealTensor result(lse, name, 2);
  MPFA_CHECK(lse.dtype.code == kDLFloat && lse.dtype.bits >= 32, name, " has type ",
             dtype_string(lse.dtype), ": must be float32 or float64");
  check_size(lse, name, 0, out.shape[0], "rows of out");
  check_size(lse, name, 1, out.shape[1], "query heads of out");
  return result;
}

}  // namespace

void attention_reference(const DLTensor& out, const DLTensor* lse, const DLTensor& q,
                         const KvCacheView& cache, const DLTensor& block_table,
                         const DLTensor& seq_lens, const DLTensor* cu_seqlens_q,
                         const AttentionParams& params) {
  const AttentionInputs in =
      check_attention_inputs(q, cache, block_table, seq_lens, cu_seqlens_q, params);
  const RealTensor q_view(q, "q", 3);
  const RealTensor out_view(out, "out", 3);
  for (int i = 0; i < 3; ++i) check_size(out, "out", i, q.shape[i], "as q has");
  const RealTensor lse_view = lse == nullptr ? RealTensor{} : check_lse_like(*lse, "lse", out);
  for (int64_t b = 0; b < in.batch_size; ++b) {
    for (int64_t head = 0; head < in.cache.num_kv_heads; ++head) {
      attend(in, q_view, b, head, out_view, lse_view);
    }
  }
}

void merge_states_reference(const DLTensor& out, const DLTensor* lse,
                            std::span<const DLTensor* const> outs,
                            std::span<const DLTensor* const> lses) {
  const RealTensor out_view(out, "out", 3);
  const RealTensor lse_view = lse == nullptr ? RealTensor{} : check_lse_like(*lse, "lse", out);
  MPFA_CHECK(outs.size() == lses.size(), "outs has ", outs.size(), " elements and lses ",
             lses.size(), ": must be as many");
  std::vector<PartialState> parts;
  for (size_t p = 0; p < outs.size(); ++p) {
    const std::string index = str_cat("[", p, "]");
    MPFA_CHECK(outs[p] != nullptr, "outs", index, " is missing: it is required");
    MPFA_CHECK(lses[p] != nullptr, "lses", index, " is missing: it is required");
    parts.push_back(
        {RealTensor(*outs[p], "outs" + index, 3), check_lse_like(*lses[p], "lses" + index, out)});
    for (int i = 0; i < 3; ++i) check_size(*outs[p], "outs" + index, i, out.shape[i], "as out has");
  }
  for (int64_t row = 0; row < out.shape[0]; ++row) {
    for (int64_t head = 0; head < out.shape[1]; ++head) {
      const RowResult merged = merge_row(parts, row, head, out.shape[2]);
      for (int64_t c = 0; c < out.shape[2]; ++c) out_view.store(merged.out[c], row, head, c);
      if (lse_view) lse_view.store(merged.lse, row, head);
    }
  }
}

}  // namespace mpfa::internal
