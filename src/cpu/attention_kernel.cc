#include "cpu/attention_kernel.h"

// AVX-512, AVX2, and SSSE3 as the baseline; the step between gains too little.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSE4
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/attention_item.h"
#include "cpu/dot-inl.h"
#include "cpu/query-inl.h"
#include "cpu/result-inl.h"
#include "cpu/softmax-inl.h"
#include "cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
    apply_softcap(s, kTileTokens, scratch.cap_bias[r], scratch.cap_unit[r], scratch.cap_factor[r],
                  in.softcap);
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
