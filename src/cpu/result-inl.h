// Turns the states of query rows into out and LSE, directly or by way of the splits' partial
// states.

#if defined(MPFA_CPU_RESULT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_CPU_RESULT_INL_H_
#undef MPFA_CPU_RESULT_INL_H_
#else
#define MPFA_CPU_RESULT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/plan.h"
#include "cpu/attention_item.h"
#include "cpu/dequant-inl.h"
#include "cpu/query-inl.h"
#include "cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  const int d = in.cache.head_dim;
  std::byte* out = outputs.out.at(row, head);
  if (state.m == kNegativeInfinity && state.l == 0.0f) {
    std::memset(out, 0, d * float_type_size(outputs.out.type));
    if (outputs.lse) *outputs.lse.at(row, head) = kNegativeInfinity;
    return;
  }
  // The first two may be huge and cancel.
  double lse = (state.unit * state.m + state.rowbias) + std::log(state.l_exact);
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
  // Never -inf, which would say that there are no keys.
  if (outputs.lse) *outputs.lse.at(row, head) = saturate(lse);
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

inline void merge_row_target(const AttentionInputs& in, const AttentionOutputs& outputs,
                             int64_t sequence, int64_t row, int64_t head, const float* partials,
                             int64_t stride, int64_t num_splits) {
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

}  // namespace mpfa::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
