// Prepares query rows: operands of dot-inl.h and everything that is one scalar per row
// (docs/spec.md, section 2).

#if defined(MPFA_CPU_QUERY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_QUERY_INL_H_
#undef MPFA_CPU_QUERY_INL_H_
#else
#define MPFA_CPU_QUERY_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/lanes-inl.h"
#include "cpu/attention_item.h"
#include "cpu/dot-inl.h"
#include "cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int n) {
  const DF df;
  VF sum = hn::Zero(df);
  for (int i = 0; i < n; i += kLanes) {
    sum = hn::MulAdd(hn::LoadU(df, a + i), hn::LoadU(df, b + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(df, sum));
}

// Sums of products that may be far larger than what is left of them.
HWY_INLINE double dot_wide(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int n) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  for (int i = 0; i < n; i += kSums) {
    for (int j = 0; j < kSums; ++j) sums[j] += double{a[i + j]} * double{b[i + j]};
  }
  for (int j = 1; j < kSums; ++j) sums[0] += sums[j];
  return sums[0];
}

template <typename T>
HWY_INLINE void load_row(const std::byte* p, int d, float* HWY_RESTRICT out) {
  T values[kMaxHeadDim];
  std::memcpy(values, p, d * sizeof(T));
  for (int i = 0; i < d; i += kLanes) hn::Store(load_widened(DF(), values + i), DF(), out + i);
}

HWY_INLINE void load_activation(const ActivationTensor& x, int64_t row, int64_t head, int d,
                                float* HWY_RESTRICT out) {
  visit_float_type(
      x.type, [&](auto element) HWY_ATTR { load_row<decltype(element)>(x.at(row, head), d, out); });
}

// ---- units of the scores ------------------------------------------------------------------------
//
// A row's scores are kept as s = S / (k_scale * 2^exponent), with the smallest exponent for which
// no part of any s leaves FP32's range, whatever finite values q, the cache and the statistics
// hold.

inline constexpr int kNoExponent = std::numeric_limits<int>::min() / 2;

// floor(log2 |x|). Zero asks for no room; what is not finite gets none.
HWY_INLINE int exponent_of(double x) {
  return x == 0.0 || !std::isfinite(x) ? kNoExponent : std::ilogb(x);
}

HWY_INLINE int largest_exponent(const float* x, int n) {
  uint32_t amax = 0;
  for (int i = 0; i < n; ++i) amax = std::max(amax, float_bits(x[i]) & 0x7FFFFFFFu);
  return exponent_of(float_from_bits(amax));
}

HWY_INLINE void multiply(float* x, int n, double factor) {
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] * factor);
}

// The nearest float that is finite; NaN stays NaN.
HWY_INLINE float saturate(double x) {
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

// What adds to the scores of a row beside q . K^, in units of k_scale * 2^exponent.
struct ScoreParts {
  int exponent;
  double first_key = 0;  // q . k_first
  double bias = 0;       // rowbias, where softcap needs it
  double coefficients[kMaxResidualRank] = {};
};

// Raises the exponent until every part fits. The limits leave room for sums: e4m3 times a
// coefficient, and BF16 times delta_s's factor, 2^-exponent / k_scale.
HWY_INLINE void raise_exponent(ScoreParts& parts, int rank, bool delta_s, float k_scale) {
  int more = std::max(exponent_of(parts.first_key) - 120, exponent_of(parts.bias) - 120);
  for (int j = 0; j < rank; ++j) {
    more = std::max(more, exponent_of(parts.coefficients[j]) - 60);
  }
  if (delta_s) more = std::max(more, 1 - std::ilogb(k_scale) - parts.exponent);
  if (more <= 0) return;
  const double shrink = std::ldexp(1.0, -more);
  parts.exponent += more;
  parts.first_key *= shrink;
  parts.bias *= shrink;
  for (int j = 0; j < rank; ++j) parts.coefficients[j] *= shrink;
}

// ---- operands -----------------------------------------------------------------------------------

// Rounded to BF16 in the upper half of each lane; the lower half is zero. A NaN stays a NaN.
HWY_INLINE VU round_to_bf16(VF x) {
  const VU quiet = hn::And(hn::Or(bits_of(x), set_bits(0x00400000u)), set_bits(0xFFFF0000u));
  const VU rounded = hn::ShiftLeft<16>(round_to_bf16_bits(x));
  return hn::IfThenElse(hn::RebindMask(DU(), hn::IsNaN(x)), quiet, rounded);
}

// Floats as `terms` BF16 numbers each that add up to them (exactly for BF16 and FP16 inputs). `n`
// is a multiple of 4; x has room for whole vectors.
HWY_INLINE void store_bf16_terms(const float* HWY_RESTRICT x, int n, int terms,
                                 uint16_t* HWY_RESTRICT out, int64_t term_stride) {
  const DF df;
  const hn::Rebind<uint16_t, DU> d16;
  HWY_ALIGN uint16_t term[kLanes];
  for (int i = 0; i < n; i += kLanes) {
    const size_t bytes = std::min<int64_t>(kLanes, n - i) * sizeof(uint16_t);
    VF rest = hn::Load(df, x + i);
    for (int t = 0; t < terms; ++t) {
      const VU rounded = round_to_bf16(rest);
      hn::Store(hn::TruncateTo(d16, hn::ShiftRight<16>(rounded)), d16, term);
      std::memcpy(out + t * term_stride + i, term, bytes);
      rest = hn::Sub(rest, hn::BitCast(df, rounded));
    }
  }
}

// Residual coefficients carry FP32 factors: two BF16 terms keep 16 bits of them.
inline constexpr int kResidualTerms = 2;

template <class Dot>
HWY_INLINE void store_query_words(const ItemContext& c, const float* q, const float* coefficients,
                                  uint32_t* words) {
  const int d = c.in.cache.head_dim;
  const int r = c.in.cache.residual_rank;
  if constexpr (Dot::kPerWord == 2) {
    auto* out = reinterpret_cast<uint16_t*>(words);
    store_bf16_terms(q, d, c.q_terms, out, d);
    store_bf16_terms(coefficients, r, kResidualTerms, out + int64_t{c.q_terms} * d, r);
  } else {
    std::memcpy(words, q, d * sizeof(float));
    std::memcpy(words + d, coefficients, r * sizeof(float));
  }
}

// Divides q by the power of two that brings its largest magnitude into [1, 2), and takes its
// products with the statistics and the first key.
HWY_INLINE ScoreParts normalise_query(const ItemContext& c, int64_t kv_head, float* q) {
  const CacheTensors& cache = c.in.cache;
  const int d = cache.head_dim;
  const int largest = largest_exponent(q, d);
  ScoreParts parts{.exponent = largest == kNoExponent ? 0 : largest};
  if (parts.exponent != 0) multiply(q, d, std::ldexp(1.0, -parts.exponent));
  for (int j = 0; j < cache.residual_rank; ++j) {
    const double p_scale = *cache.stats.residual_scale.at(c.stats_row, kv_head, j);
    const float* u = cache.stats.residual_basis.at(c.stats_row, kv_head, j);
    parts.coefficients[j] = dot(q, u, d) * p_scale / c.k_scale;
  }
  if (cache.k_first && c.in.seqlen_k(c.item.sequence) > 0) {
    HWY_ALIGN float k_first[kMaxHeadDim];
    const Bf16* row = cache.k_first.at(*c.in.block_table.at(c.item.sequence, 0), kv_head);
    for (int i = 0; i < d; ++i) k_first[i] = bf16_to_float(row[i]);
    parts.first_key = dot_wide(q, k_first, d) / c.k_scale;
  }
  return parts;
}

// Prepares query row `r` of the item: operand words and everything that is one scalar per row
// (docs/spec.md, section 2).
template <class Dot>
HWY_NOINLINE void prepare_row(const ItemContext& c, int64_t r, Scratch& scratch) {
  const AttentionInputs& in = c.in;
  const CacheTensors& cache = in.cache;
  const int d = cache.head_dim;
  const int64_t kv_head = c.item.kv_head;
  const int64_t head = kv_head * in.group_size + r % in.group_size;
  const int64_t position = c.item.q_begin + r / in.group_size;
  HWY_ALIGN float q[kMaxHeadDim];
  load_activation(in.q, in.q_begin(c.item.sequence) + position, head, d, q);
  const double raw_bias = dot_wide(q, cache.stats.k_mean.at(c.stats_row, kv_head), d);
  if (cache.delta_s) {
    const float* q_mean = cache.stats.q_mean.at(c.stats_row, head);
    for (int i = 0; i < d; ++i) q[i] -= q_mean[i];
  }

  ScoreParts parts = normalise_query(c, kv_head, q);
  const bool capped = in.softcap > 0;
  if (capped) parts.bias = raw_bias / c.k_scale * std::ldexp(1.0, -parts.exponent);
  const int normalised = parts.exponent;
  raise_exponent(parts, cache.residual_rank, static_cast<bool>(cache.delta_s), c.k_scale);
  if (parts.exponent != normalised) multiply(q, d, std::ldexp(1.0, normalised - parts.exponent));

  HWY_ALIGN float coefficients[kMaxResidualRank];
  for (int j = 0; j < kMaxResidualRank; ++j) {
    coefficients[j] = static_cast<float>(parts.coefficients[j]);
  }
  store_query_words<Dot>(c, q, coefficients, scratch.q.get() + r * c.q_words);

  scratch.first_key[r] = static_cast<float>(parts.first_key);
  scratch.delta_scale[r] = static_cast<float>(std::ldexp(1.0, -parts.exponent) / c.k_scale);
  scratch.positions[r] = position;
  const double scale = in.softmax_scale;
  const double unit = scale * c.k_scale * std::ldexp(1.0, parts.exponent);
  scratch.cap_unit[r] = saturate(unit);
  scratch.cap_factor[r] = saturate(unit / in.softcap);
  scratch.cap_bias[r] = static_cast<float>(parts.bias);
  // With softcap the scores become natural logits in apply_softcap(), rowbias included.
  RowState& state = scratch.states[r];
  state = RowState{};
  state.m = kNegativeInfinity;
  state.unit = capped ? 1.0 : unit;
  state.rowbias = capped ? 0.0 : scale * raw_bias;
  // Not 0, however small: a hidden score is -inf, and 0 * inf is NaN.
  state.lambda = std::max(saturate(state.unit * kLog2E), std::numeric_limits<float>::min());
}

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
