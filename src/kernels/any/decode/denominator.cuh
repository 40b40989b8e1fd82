// A row's LSE, and what sinks add to its denominator (docs/spec.md, section 3).
#pragma once

#include "kernels/any/decode/softmax.cuh"

namespace mpfa::kernels {

// `sum` of exponents taken with `offset` (softmax.cuh), `bias` that of RowEnd. Returns by what
// sinks lower the output. `writes`: this lane writes the row's LSE, if the caller wants it.
__device__ __forceinline__ float finish_denominator(const DecodeParams& p,
                                                    const DecodeSegment& segment,
                                                    const QueryRow& query, float offset, float sum,
                                                    float bias, bool writes) {
  constexpr float kLn2 = 0.6931471805599453f;
  float lse = __uint_as_float(0xFF800000u);
  float factor = 1.0f;
  if (offset != kNoKey) {
    lse = (__log2f(sum) - offset) * kLn2 + bias;
    if (p.sinks != nullptr) {
      const float sink = p.sinks[query.head * p.sinks_stride];
      const float beyond = sink - lse;
      const float with_sink = fmaxf(lse, sink) + __logf(1.0f + __expf(-fabsf(beyond)));
      factor = __expf(lse - with_sink);
      lse = with_sink;
    }
  }
  if (writes && p.lse != nullptr) {
    p.lse[(segment.q_begin + query.position) * p.lse_row_stride + query.head * p.lse_head_stride] =
        lse;
  }
  return factor;
}

}  // namespace mpfa::kernels
