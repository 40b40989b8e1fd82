#include "cpu/attention_kernel.h"

// AVX-512, AVX2, and SSSE3 as the baseline; the step between gains too little.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSE4
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/plan.h"
#include "cpu/attention_item.h"
#include "cpu/dequant-inl.h"
#include "cpu/dot-inl.h"
#include "cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where a tile's cache rows lie: 16 tokens never leave a page.
inline constexpr int64_t kGroupTokens = 16;

// ---- query rows ---------------------------------------------------------------------------------

HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int n) {
  const DF df;
  VF sum = hn::Zero(df);
  for (int i = 0; i < n; i += kLanes) {
    sum = hn::MulAdd(hn::LoadU(df, a + i), hn::LoadU(df, b + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(df, sum));
}

HWY_INLINE void load_activation(const ActivationTensor& x, int64_t row, int64_t head, int d,
                                float* HWY_RESTRICT out) {
  const std::byte* p = x.at(row, head);
  const DF df;
  const DU du;
  const hn::Rebind<uint16_t, DF> d16;
  if (x.type == FloatType::kFp32) {
    std::memcpy(out, p, d * sizeof(float));
    return;
  }
  HWY_ALIGN uint16_t bits[kMaxHeadDim];
  std::memcpy(bits, p, d * sizeof(uint16_t));
  for (int i = 0; i < d; i += kLanes) {
    const auto half = hn::Load(d16, bits + i);
    if (x.type == FloatType::kBf16) {
      hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, half))), df, out + i);
    } else {
      const hn::Rebind<hwy::float16_t, DF> d_half;
      hn::Store(hn::PromoteTo(df, hn::BitCast(d_half, half)), df, out + i);
    }
  }
}

// The power of two that brings the largest |x| into [1, 2), so that no score can overflow FP32; 1
// for a row of zeros or one that is not finite.
HWY_INLINE float normalising_scale(const float* x, int d, int& exponent) {
  uint32_t amax = 0;
  for (int i = 0; i < d; ++i) amax = std::max(amax, float_bits(x[i]) & 0x7FFFFFFFu);
  exponent = 0;
  if (amax == 0 || amax >= 0x7F800000u) return 1.0f;
  exponent = std::max(std::ilogb(float_from_bits(amax)), -126);
  return std::ldexp(1.0f, -exponent);
}

HWY_INLINE float saturate(double x) {
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(std::min(x, kMax));
}

// Round to nearest even, in the upper half of each lane; the lower half is zero. A NaN stays a NaN.
HWY_INLINE VU round_to_bf16(VF x) {
  const DU du;
  const VU bits = hn::BitCast(du, x);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const VU rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const VU quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  const VU result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  return hn::And(result, hn::Set(du, 0xFFFF0000u));
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
  HWY_ALIGN float coefficients[kMaxResidualRank] = {};
  load_activation(in.q, in.q_begin(c.item.sequence) + position, head, d, q);

  const double scale = in.softmax_scale;
  const double rowbias = scale * dot(q, cache.stats.k_mean.at(c.stats_row, kv_head), d);
  if (cache.delta_s) {
    const float* q_mean = cache.stats.q_mean.at(c.stats_row, head);
    for (int i = 0; i < d; ++i) q[i] -= q_mean[i];
  }
  int exponent = 0;
  const float normalise = normalising_scale(q, d, exponent);
  for (int i = 0; i < d; ++i) q[i] *= normalise;
  for (int j = 0; j < cache.residual_rank; ++j) {
    const float p_scale = *cache.stats.residual_scale.at(c.stats_row, kv_head, j);
    coefficients[j] =
        dot(q, cache.stats.residual_basis.at(c.stats_row, kv_head, j), d) * (p_scale / c.k_scale);
  }
  store_query_words<Dot>(c, q, coefficients, scratch.q.get() + r * c.q_words);

  scratch.first_key[r] = 0.0f;
  if (cache.k_first && in.seqlen_k(c.item.sequence) > 0) {
    HWY_ALIGN float k_first[kMaxHeadDim];
    const Bf16* row = cache.k_first.at(*in.block_table.at(c.item.sequence, 0), kv_head);
    for (int i = 0; i < d; ++i) k_first[i] = bf16_to_float(row[i]);
    scratch.first_key[r] = dot(q, k_first, d) / c.k_scale;
  }
  scratch.delta_scale[r] = normalise / c.k_scale;
  scratch.positions[r] = position;
  const double unit = scale * c.k_scale * std::ldexp(1.0, exponent);
  scratch.cap_unit[r] = saturate(unit);
  scratch.cap_bias[r] = static_cast<float>(rowbias);
  // With softcap the scores become natural logits in apply_softcap(), rowbias included.
  const bool capped = in.softcap > 0;
  scratch.states[r] = {.m = kNegativeInfinity,
                       .l = 0.0f,
                       .l_exact = 0.0f,
                       .lambda = capped ? kLog2E : saturate(unit * kLog2E),
                       .rowbias = capped ? 0.0f : static_cast<float>(rowbias)};
}

// ---- tiles --------------------------------------------------------------------------------------

// Sixteen tokens of one page, or their copy padded with zeros where fewer are valid, so that bytes
// past the sequence's end are never read.
struct TokenGroup {
  WordRows codes;
  WordRows scales;
  WordRows residual;
  WordRows v;
};

struct PaddedGroup {
  uint8_t codes[kGroupTokens * kMaxHeadDim / 2];
  uint8_t scales[kGroupTokens * kMaxHeadDim / 16];
  uint8_t residual[kGroupTokens * kMaxResidualRank];
  uint8_t v[kGroupTokens * kMaxHeadDim];
};

HWY_INLINE WordRows pad_rows(const WordRows& rows, int64_t valid, int64_t bytes, uint8_t* copy) {
  std::memset(copy, 0, kGroupTokens * bytes);
  for (int64_t t = 0; t < valid; ++t) {
    std::memcpy(copy + t * bytes, rows.data + t * rows.stride, bytes);
  }
  return {copy, bytes};
}

// Where a token of the item's sequence stands in the cache.
struct TokenPlace {
  int64_t page;
  int64_t slot;
};

HWY_INLINE TokenPlace place_of(const ItemContext& c, int64_t token) {
  const int64_t page_size = c.in.cache.page_size;
  return {*c.in.block_table.at(c.item.sequence, token / page_size), token % page_size};
}

HWY_INLINE TokenGroup cache_rows(const ItemContext& c, int64_t token) {
  const CacheTensors& cache = c.in.cache;
  const TokenPlace at = place_of(c, token);
  const auto rows = [&](const auto& tensor) -> WordRows {
    if (!tensor) return {nullptr, 0};
    return {reinterpret_cast<const uint8_t*>(tensor.at(at.page, c.item.kv_head, at.slot)),
            tensor.stride(2)};
  };
  return {rows(cache.k_codes), rows(cache.k_scales), rows(cache.k_residual), rows(cache.v)};
}

HWY_INLINE TokenGroup locate_group(const ItemContext& c, int64_t token, int64_t valid,
                                   PaddedGroup& padded) {
  TokenGroup group = cache_rows(c, token);
  if (valid >= kGroupTokens) return group;
  const int d = c.in.cache.head_dim;
  group.codes = pad_rows(group.codes, valid, d / 2, padded.codes);
  group.scales = pad_rows(group.scales, valid, d / 16, padded.scales);
  group.residual = pad_rows(group.residual, group.residual.data == nullptr ? 0 : valid,
                            c.in.cache.residual_rank, padded.residual);
  group.v = pad_rows(group.v, valid, d, padded.v);
  return group;
}

// Asks for a token group of the tile to come. Tiles run backwards through scattered pages, which
// the hardware's prefetchers do not follow: without this half of decode's time is waiting.
HWY_INLINE void prefetch_group(const ItemContext& c, int64_t token) {
  if (token < c.item.k_begin) return;
  constexpr int kLine = 64;
  const int d = c.in.cache.head_dim;
  const TokenGroup group = cache_rows(c, token);
  const auto prefetch = [](const WordRows& rows, int bytes) {
    if (rows.data == nullptr) return;
    // Rows that lie back to back are taken as one stretch.
    const bool dense = rows.stride == bytes;
    const int64_t stretches = dense ? 1 : kGroupTokens;
    const int64_t length = dense ? int64_t{kGroupTokens} * bytes : bytes;
    for (int64_t i = 0; i < stretches; ++i) {
      for (int64_t j = 0; j < length; j += kLine) {
        __builtin_prefetch(rows.data + i * rows.stride + j, 0, 2);
      }
    }
  };
  prefetch(group.v, d);
  prefetch(group.codes, d / 2);
  prefetch(group.scales, d / 16);
  prefetch(group.residual, c.in.cache.residual_rank);
}

// Unpacks tokens [begin, begin + valid) of the item's KV head; the rest of the tile becomes zero.
// Returns whether a NaN stands in the tile's V.
template <class Dot>
HWY_NOINLINE bool unpack_tile(const ItemContext& c, int64_t begin, int64_t valid,
                              Scratch& scratch) {
  const int d = c.in.cache.head_dim;
  const int r = c.in.cache.residual_rank;
  bool has_nan = false;
  for (int64_t t = 0; t < kTileTokens; t += kGroupTokens) {
    prefetch_group(c, begin - kTileTokens + t);
    PaddedGroup padded;
    const int64_t here = std::min<int64_t>(kGroupTokens, valid - t);
    TokenGroup group;
    if (here > 0) {
      group = locate_group(c, begin + t, here, padded);
    } else {
      std::memset(&padded, 0, sizeof(padded));
      group = {{padded.codes, d / 2}, {padded.scales, d / 16}, {padded.residual, r}, {padded.v, d}};
    }
    for (int lane = 0; lane < kGroupTokens; lane += kLanes) {
      unpack_k_lanes<Dot>(group.codes, group.scales, group.residual, lane, d, r, kTileTokens,
                          scratch.k_tile.get() + t + lane);
    }
    for (int i = 0; i < kGroupTokens; i += Dot::kPerWord) {
      const uint8_t* first = group.v.data + i * group.v.stride;
      const uint8_t* second = group.v.data + (i + Dot::kPerWord - 1) * group.v.stride;
      unpack_v_step<Dot>(first, second, d,
                         scratch.v_tile.get() + (t + i) / Dot::kPerWord * int64_t{d});
      has_nan = has_nan || find_nan_codes(first, d);
      if constexpr (Dot::kPerWord == 2) has_nan = has_nan || find_nan_codes(second, d);
    }
  }
  return has_nan;
}

// delta_s of the tile's tokens for every head of the group, as floats.
HWY_INLINE void load_deltas(const ItemContext& c, int64_t begin, int64_t valid, Scratch& scratch) {
  const CacheTensors& cache = c.in.cache;
  for (int64_t g = 0; g < c.in.group_size; ++g) {
    const int64_t head = c.item.kv_head * c.in.group_size + g;
    float* out = scratch.deltas.get() + g * kTileTokens;
    std::fill(out, out + kTileTokens, 0.0f);
    for (int64_t t = 0; t < valid; ++t) {
      const TokenPlace at = place_of(c, begin + t);
      out[t] = bf16_to_float(*cache.delta_s.at(at.page, head, at.slot));
    }
  }
}

// A NaN in V reaches exactly the rows that see its token; the packed operand holds a number there,
// so that 0 * NaN cannot reach the others.
template <class Dot>
HWY_NOINLINE void add_nan_values(const ItemContext& c, int64_t begin, int64_t valid,
                                 Scratch& scratch) {
  const CacheTensors& cache = c.in.cache;
  const int d = cache.head_dim;
  for (int64_t t = 0; t < valid; ++t) {
    const int64_t token = begin + t;
    const TokenPlace at = place_of(c, token);
    const E4m3* v = cache.v.at(at.page, c.item.kv_head, at.slot);
    for (int i = 0; i < d; ++i) {
      if ((v[v_dim_at<Dot>(i)].bits & 0x7F) != kE4m3NanCode) continue;
      for (int64_t r = 0; r < c.rows; ++r) {
        const KeyRange range = c.in.visible_keys(c.item.sequence, scratch.positions[r]);
        if (token >= range.begin && token < range.end) {
          scratch.o[r * d + i] = std::numeric_limits<float>::quiet_NaN();
        }
      }
    }
  }
}

// Everything that is added to a row's raw scores before its softmax.
HWY_INLINE void finish_scores(const ItemContext& c, int64_t r, int64_t begin, KeyRange visible,
                              const Scratch& scratch, float* s) {
  const DF df;
  const AttentionInputs& in = c.in;
  if (in.cache.delta_s) {
    const float* delta = scratch.deltas.get() + (r % in.group_size) * kTileTokens;
    const VF factor = hn::Set(df, scratch.delta_scale[r]);
    for (int t = 0; t < kTileTokens; t += kLanes) {
      hn::Store(hn::MulAdd(hn::Load(df, delta + t), factor, hn::Load(df, s + t)), df, s + t);
    }
  }
  if (begin == 0) s[0] += scratch.first_key[r];
  if (in.softcap > 0) {
    apply_softcap(s, kTileTokens, scratch.cap_unit[r], scratch.cap_bias[r], in.softcap);
  }
  if (visible.begin > begin || visible.end < begin + kTileTokens) {
    apply_mask(s, kTileTokens, std::max<int64_t>(visible.begin - begin, 0),
               std::min<int64_t>(visible.end - begin, kTileTokens));
  }
}

template <class Dot, int R>
HWY_INLINE void attend_rows(const ItemContext& c, int64_t r0, int64_t begin,
                            const KeyRange* visible, Scratch& scratch) {
  HWY_ALIGN float s[R * kTileTokens];
  HWY_ALIGN uint32_t p[R * kTileTokens / Dot::kPerWord];
  constexpr int kSteps = kTileTokens / Dot::kPerWord;
  const int d = c.in.cache.head_dim;
  float correction[R];
  score_rows<Dot, R>(scratch.q.get() + r0 * c.q_words, c.q_words, scratch.k_tile.get(), kTileTokens,
                     c.segments, c.num_segments, s);
  for (int i = 0; i < R; ++i) {
    float* row = s + i * kTileTokens;
    finish_scores(c, r0 + i, begin, visible[i], scratch, row);
    correction[i] = softmax_row<Dot>(row, kTileTokens, scratch.states[r0 + i], p + i * kSteps);
  }
  accumulate_rows<Dot, R>(p, kSteps, scratch.v_tile.get(), d, kSteps, correction,
                          scratch.o.get() + r0 * d);
}

// All rows of the item against one tile, kMaxRows at a time; blocks of rows that see nothing of it
// are left alone.
template <class Dot>
HWY_INLINE void attend_tile(const ItemContext& c, int64_t begin, Scratch& scratch) {
  const int64_t end = std::min(begin + kTileTokens, c.item.k_end);
  for (int64_t r0 = 0; r0 < c.rows; r0 += kMaxRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kMaxRows, c.rows - r0));
    KeyRange visible[kMaxRows];
    bool any = false;
    for (int i = 0; i < rows; ++i) {
      visible[i] = c.in.visible_keys(c.item.sequence, scratch.positions[r0 + i]);
      visible[i].begin = std::max(visible[i].begin, begin);
      visible[i].end = std::max(std::min(visible[i].end, end), begin);
      any = any || !visible[i].empty();
    }
    if (!any) continue;
    with_rows(rows, [&](auto r) { attend_rows<Dot, r()>(c, r0, begin, visible, scratch); });
  }
}

// ---- results ------------------------------------------------------------------------------------

// out[i] = o[i] * factor in the output's type.
HWY_INLINE void store_output(const float* HWY_RESTRICT o, float factor, int d, FloatType type,
                             std::byte* HWY_RESTRICT out) {
  const DF df;
  const VF scale = hn::Set(df, factor);
  HWY_ALIGN float row[kMaxHeadDim];
  for (int i = 0; i < d; i += kLanes) hn::Store(hn::Mul(hn::Load(df, o + i), scale), df, row + i);
  if (type == FloatType::kBf16) {
    HWY_ALIGN uint16_t bits[kMaxHeadDim];
    store_bf16_terms(row, d, 1, bits, d);
    std::memcpy(out, bits, d * sizeof(uint16_t));
    return;
  }
  visit_float_type(type, [&](auto value) {
    for (int i = 0; i < d; ++i) {
      value = from_float<decltype(value)>(row[i]);
      std::memcpy(out + i * sizeof(value), &value, sizeof(value));
    }
  });
}

// out = O / l and LSE, the sink logit joining the denominator (docs/spec.md, section 3).
HWY_INLINE void write_row(const AttentionInputs& in, const AttentionOutputs& outputs,
                          int64_t sequence, int64_t row, int64_t head, const RowState& state,
                          const float* o) {
  constexpr double kLn2 = 0.693147180559945309417;
  const int d = in.cache.head_dim;
  std::byte* out = outputs.out.at(row, head);
  if (state.m == kNegativeInfinity && state.l == 0.0f) {
    std::memset(out, 0, d * float_type_size(outputs.out.type));
    if (outputs.lse) *outputs.lse.at(row, head) = kNegativeInfinity;
    return;
  }
  double lse = state.lambda * kLn2 * state.m + std::log(state.l_exact) + state.rowbias;
  double weight = 1.0;
  if (in.sinks) {
    const double sink = *in.sinks.at(head);
    const double own = lse;
    lse = std::max(own, sink) + std::log1p(std::exp(-std::abs(own - sink)));
    weight = std::exp(own - lse);
  }
  const float v_scale = in.cache.v_scale(in.cache.stats_row(sequence), head / in.group_size);
  store_output(o, static_cast<float>(weight / state.l / kVUnit * v_scale), d, outputs.out.type,
               out);
  if (outputs.lse) *outputs.lse.at(row, head) = static_cast<float>(lse);
}

static_assert(sizeof(RowState) == kPartialStateFloats * sizeof(float));

HWY_INLINE void store_partial(const RowState& state, const float* o, int d, float* partial) {
  std::memcpy(partial, &state, sizeof(state));
  std::memcpy(partial + sizeof(state) / sizeof(float), o, d * sizeof(float));
}

template <class Dot>
void finish_item(const ItemContext& c, const AttentionOutputs& outputs, const Scratch& scratch) {
  const AttentionInputs& in = c.in;
  const int d = in.cache.head_dim;
  for (int64_t r = 0; r < c.rows; ++r) {
    const int64_t token = r / in.group_size;
    const int64_t head = c.item.kv_head * in.group_size + r % in.group_size;
    HWY_ALIGN float o[kMaxHeadDim];
    for (int i = 0; i < d; ++i) o[v_dim_at<Dot>(i)] = scratch.o[r * d + i];
    if (c.item.partial != nullptr) {
      const int64_t index = token * in.q.heads + head;
      store_partial(scratch.states[r], o, d, c.item.partial + index * (d + kPartialStateFloats));
    } else {
      const int64_t row = in.q_begin(c.item.sequence) + c.item.q_begin + token;
      write_row(in, outputs, c.item.sequence, row, head, scratch.states[r], o);
    }
  }
}

// ---- one work item ------------------------------------------------------------------------------

template <class Dot>
ItemContext make_context(const AttentionInputs& in, const WorkItem& item) {
  const CacheTensors& cache = in.cache;
  const int64_t stats_row = cache.stats_row(item.sequence);
  ItemContext c{.in = in,
                .item = item,
                .rows = item.q_count * in.group_size,
                .stats_row = stats_row,
                .k_scale = cache.k_scale(stats_row, item.kv_head),
                .q_terms = in.q.type == FloatType::kBf16 && !cache.delta_s ? 1 : 2,
                .q_words = 0,
                .segments = {},
                .num_segments = 0};
  const auto add = [&](int begin, int steps) {
    if (steps == 0) return;
    c.segments[c.num_segments++] = {begin, steps};
    c.q_words += steps;
  };
  const int d = cache.head_dim;
  const int r = cache.residual_rank;
  if constexpr (Dot::kPerWord == 2) {
    for (int t = 0; t < c.q_terms; ++t) add(0, d / 2);
    for (int t = 0; t < kResidualTerms; ++t) add(d / 2, r / 2);
  } else {
    add(0, d + r);
  }
  return c;
}

// The keys that any row of the item sees.
KeyRange item_keys(const ItemContext& c) {
  const KeyRange first = c.in.visible_keys(c.item.sequence, c.item.q_begin);
  const KeyRange last = c.in.visible_keys(c.item.sequence, c.item.q_begin + c.item.q_count - 1);
  return {std::max(first.begin, c.item.k_begin), std::min(last.end, c.item.k_end)};
}

template <class Dot>
void attend_item_as(const AttentionInputs& in, const AttentionOutputs& outputs,
                    const WorkItem& item) {
  thread_local Scratch scratch;
  const ItemContext c = make_context<Dot>(in, item);
  const int d = in.cache.head_dim;
  scratch.reserve(c.rows, c.q_words, d, in.group_size);
  for (int64_t r = 0; r < c.rows; ++r) prepare_row<Dot>(c, r, scratch);
  std::fill_n(scratch.o.get(), c.rows * d, 0.0f);

  const KeyRange keys = item_keys(c);
  const int64_t first_tile = keys.begin / kTileTokens * kTileTokens;
  const int64_t last_tile = (keys.end - 1) / kTileTokens * kTileTokens;
  for (int64_t begin = last_tile; begin >= first_tile && !keys.empty(); begin -= kTileTokens) {
    const int64_t valid = std::min<int64_t>(kTileTokens, keys.end - begin);
    const bool has_nan = unpack_tile<Dot>(c, begin, valid, scratch);
    if (in.cache.delta_s) load_deltas(c, begin, valid, scratch);
    attend_tile<Dot>(c, begin, scratch);
    if (has_nan) add_nan_values<Dot>(c, begin, valid, scratch);
  }
  finish_item<Dot>(c, outputs, scratch);
}

void attend_item_target(const AttentionInputs& in, const AttentionOutputs& outputs,
                        const WorkItem& item, DotKind kind) {
#if MPFA_HAVE_BF16_DOT
  if (kind == DotKind::kBf16) return attend_item_as<Bf16Dot>(in, outputs, item);
#endif
  (void)kind;
  attend_item_as<Fp32Dot>(in, outputs, item);
}

void merge_row_target(const AttentionInputs& in, const AttentionOutputs& outputs, int64_t sequence,
                      int64_t row, int64_t head, const float* partials, int64_t stride,
                      int64_t num_splits) {
  const int d = in.cache.head_dim;
  RowState merged;
  std::memcpy(&merged, partials, sizeof(merged));
  const auto state = [&](int64_t i) {
    RowState s;
    std::memcpy(&s, partials + i * stride, sizeof(s));
    return s;
  };
  for (int64_t i = 1; i < num_splits; ++i) merged.m = std::max(merged.m, state(i).m);
  merged.l = 0.0f;
  merged.l_exact = 0.0f;
  HWY_ALIGN float o[kMaxHeadDim] = {};
  for (int64_t i = 0; i < num_splits; ++i) {
    const RowState s = state(i);
    if (s.m == kNegativeInfinity && s.l == 0.0f) continue;
    const float weight = s.m == merged.m ? 1.0f : std::exp2(merged.lambda * (s.m - merged.m));
    merged.l += weight * s.l;
    merged.l_exact += weight * s.l_exact;
    const float* part = partials + i * stride + kPartialStateFloats;
    for (int j = 0; j < d; ++j) o[j] += weight * part[j];
  }
  write_row(in, outputs, sequence, row, head, merged, o);
}

bool have_bf16_dot_target() { return MPFA_HAVE_BF16_DOT != 0; }
const char* target_name_target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::internal {

HWY_EXPORT(attend_item_target);
HWY_EXPORT(merge_row_target);
HWY_EXPORT(have_bf16_dot_target);
HWY_EXPORT(target_name_target);

namespace {
std::optional<DotKind> forced_dot_kind;
}  // namespace

void force_dot_kind_for_test(std::optional<DotKind> kind) { forced_dot_kind = kind; }

DotKind choose_dot_kind(FloatType q_type) {
  if (forced_dot_kind) return *forced_dot_kind;
  // FP32 queries are meant to be used at FP32's precision.
  if (q_type == FloatType::kFp32) return DotKind::kFp32;
  const bool has = HWY_DYNAMIC_DISPATCH(have_bf16_dot_target)();
#if HWY_ARCH_X86
  if (has && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi")) {
    return DotKind::kBf16;
  }
#endif
  (void)has;
  return DotKind::kFp32;
}

const char* attention_target_name() {
  if (choose_dot_kind(FloatType::kBf16) == DotKind::kBf16) return "AVX-512 with BF16 products";
  return HWY_DYNAMIC_DISPATCH(target_name_target)();
}

void attend_item(const AttentionInputs& in, const AttentionOutputs& outputs, const WorkItem& item,
                 DotKind kind) {
  HWY_DYNAMIC_DISPATCH(attend_item_target)(in, outputs, item, kind);
}

void merge_row(const AttentionInputs& in, const AttentionOutputs& outputs, int64_t sequence,
               int64_t row, int64_t head, const float* partials, int64_t stride,
               int64_t num_splits) {
  HWY_DYNAMIC_DISPATCH(merge_row_target)
  (in, outputs, sequence, row, head, partials, stride, num_splits);
}

}  // namespace mpfa::internal
#endif  // HWY_ONCE
