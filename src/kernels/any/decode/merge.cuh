// States of warps and of CTAs become one (docs/spec.md, section 3): each is an output divided by
// its sum of probabilities, in FP16, and that sum with the offset of its exponents (softmax.cuh).
#pragma once

#include "kernels/any/decode/values.cuh"

namespace mpfa::kernels {

// A state in memory: rows of FP16 outputs, then a weight for each row: offset and sum. kNoKey as
// the offset: no key.
template <class Config>
struct StateView {
  std::byte* base;

  // Dims 8 * chunk to 8 * chunk + 7 of a row. Chunks are exchanged so that the rows of a quad of
  // lanes meet different banks of shared memory.
  __device__ __forceinline__ uint32_t* output(int row, int chunk) const {
    const int exchanged = chunk ^ ((row >> 1 & 1) | (row >> 2 & 1) << 2);
    return reinterpret_cast<uint32_t*>(base + row * Config::kHeadDim * 2 + exchanged * 16);
  }
  __device__ __forceinline__ float2* weight(int row) const {
    return reinterpret_cast<float2*>(base + Config::kRows * Config::kHeadDim * 2) + row;
  }
};

// Writes a warp's state.
template <class Config>
__device__ __forceinline__ void publish(const Output<Config>& output, SoftmaxState<Config>& softmax,
                                        const StateView<Config>& state, int lane) {
  softmax.finish();
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int n = 0; n < Config::kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 8 * n + 2 * t + i;
      const float sum = softmax.sum[n][i];
      const float inverse = softmax.offset[n][i] == kNoKey ? 0.0f : ptx::reciprocal_approx(sum);
      uint32_t packed[Config::kSteps];
#pragma unroll
      for (int j = 0; j < Config::kSteps; ++j) {
        packed[j] = ptx::f16x2(output.sums[j][n][i] * inverse, output.sums[j][n][i + 2] * inverse);
      }
#pragma unroll
      for (int j = 0; j < Config::kSteps; j += 4) {
        *reinterpret_cast<uint4*>(state.output(row, (g * Config::kSteps + j) / 4)) =
            make_uint4(packed[j], packed[j + 1], packed[j + 2], packed[j + 3]);
      }
      if (g == 0) *state.weight(row) = make_float2(softmax.offset[n][i], sum);
    }
  }
}

// What a row's states add up to, in one lane: dims [lane * kDims, +kDims).
template <int kDims>
struct MergedRow {
  float output[kDims];  // divided by the sum
  float offset;         // of the sum
  float sum;
};

// Where states lie: number 0 at `first`, number i > 0 at others + i * stride.
template <class Config>
struct StateList {
  std::byte* first;
  std::byte* others;
  int64_t stride;
  int count;

  __device__ __forceinline__ StateView<Config> operator[](int i) const {
    return {i == 0 ? first : others + i * stride};
  }
};

// States whose rows are on their way at once: each read takes as long as hundreds of instructions.
inline constexpr int kStatesAtATime = 12;

// Adds `count` states from number `first` on; lane first_lane + i has the weight of the i-th.
template <class Config>
__device__ __forceinline__ void add_states(const StateList<Config>& states, int first, int count,
                                           int first_lane, float weight, int row, int lane,
                                           MergedRow<Config::kHeadDim / 32>& merged) {
  constexpr int kDims = Config::kHeadDim / 32;
  uint32_t words[kStatesAtATime][kDims / 2];
#pragma unroll
  for (int i = 0; i < kStatesAtATime; ++i) {
    const uint32_t* from =
        states[first + min(i, count - 1)].output(row, lane * kDims / 8) + lane * kDims % 8 / 2;
#pragma unroll
    for (int j = 0; j < kDims / 2; ++j) words[i][j] = from[j];
  }
#pragma unroll
  for (int i = 0; i < kStatesAtATime; ++i) {
    const float of_state = __shfl_sync(~0u, weight, first_lane + i);
    if (i >= count) continue;
    merged.sum += of_state;
#pragma unroll
    for (int j = 0; j < kDims / 2; ++j) {
      merged.output[2 * j] = fmaf(of_state, ptx::low_f16(words[i][j]), merged.output[2 * j]);
      merged.output[2 * j + 1] =
          fmaf(of_state, ptx::high_f16(words[i][j]), merged.output[2 * j + 1]);
    }
  }
}

// Adds states up. The order of additions is that of the list, whoever adds them.
template <class Config>
__device__ __forceinline__ MergedRow<Config::kHeadDim / 32> merge_row(
    const StateList<Config>& states, int row, int lane) {
  constexpr int kDims = Config::kHeadDim / 32;
  MergedRow<kDims> merged;
  merged.sum = 0.0f;
#pragma unroll
  for (float& x : merged.output) x = 0.0f;
  float lowest = kNoKey;
#pragma unroll 1
  for (int begin = 0; begin < states.count; begin += 32) {
    // Lane i has the weight of state begin + i.
    float2 own = make_float2(kNoKey, 0.0f);
    if (begin + lane < states.count) own = *states[begin + lane].weight(row);
    float least = fminf(lowest, own.x);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      least = fminf(least, __shfl_xor_sync(~0u, least, step));
    }
    const float factor = ptx::exp2_approx(least - lowest);  // of what there is so far
    merged.sum *= factor;
#pragma unroll
    for (float& x : merged.output) x *= factor;
    lowest = least;
    const float weight = own.x == kNoKey ? 0.0f : own.y * ptx::exp2_approx(lowest - own.x);
    const int here = min(32, states.count - begin);
#pragma unroll 1
    for (int first = 0; first < here; first += kStatesAtATime) {
      add_states<Config>(states, begin + first, min(kStatesAtATime, here - first), first, weight,
                         row, lane, merged);
    }
  }
  merged.offset = lowest;
  const float inverse = lowest == kNoKey ? 0.0f : ptx::reciprocal_approx(merged.sum);
#pragma unroll
  for (float& x : merged.output) x *= inverse;
  return merged;
}

// Writes a merged row as a partial state.
template <class Config>
__device__ __forceinline__ void store_partial(const MergedRow<Config::kHeadDim / 32>& merged,
                                              const StateView<Config>& state, int row, int lane) {
  constexpr int kDims = Config::kHeadDim / 32;
#pragma unroll
  for (int j = 0; j < kDims; j += 2) {
    state.output(row, lane * kDims / 8)[(lane * kDims % 8 + j) / 2] =
        ptx::f16x2(merged.output[j], merged.output[j + 1]);
  }
  if (lane == 0) *state.weight(row) = make_float2(merged.offset, merged.sum);
}

// Writes a merged row as the result: output, LSE, with what sinks add to the denominator.
template <class Config>
__device__ __forceinline__ void store_result(const DecodeParams& p, const DecodeSegment& segment,
                                             const MergedRow<Config::kHeadDim / 32>& merged,
                                             const RowScalars& scalars, int row, int lane) {
  constexpr int kDims = Config::kHeadDim / 32;
  const QueryRow query = query_row(p, segment, row);
  if (!query.is_valid) return;
  const int64_t out_row = segment.q_begin + query.position;
  const bool has_keys = merged.offset != kNoKey;
  float factor = scale_of(p.v_scale, p.v_scale_strides, segment.stats_row, segment.kv_head);
  constexpr float kLn2 = 0.6931471805599453f;
  float lse = __uint_as_float(0xFF800000u);
  if (has_keys) {
    lse = (__log2f(merged.sum) - merged.offset) * kLn2 + scalars.bias;
    if (p.sinks != nullptr) {
      const float sink = p.sinks[query.head * p.sinks_stride];
      const float beyond = sink - lse;
      const float with_sink = fmaxf(lse, sink) + __logf(1.0f + __expf(-fabsf(beyond)));
      factor *= __expf(lse - with_sink);
      lse = with_sink;
    }
  }
  uint16_t packed[kDims];
#pragma unroll
  for (int j = 0; j < kDims; j += 2) {
    const float low = merged.output[j] * factor;
    const float high = merged.output[j + 1] * factor;
    const uint32_t pair = p.is_bf16 != 0 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
    packed[j] = static_cast<uint16_t>(pair);
    packed[j + 1] = static_cast<uint16_t>(pair >> 16);
  }
  auto* out = reinterpret_cast<uint16_t*>(p.out) + out_row * p.out_row_stride +
              query.head * p.out_head_stride + lane * kDims;
#pragma unroll
  for (int j = 0; j < kDims; ++j) out[j] = packed[j];
  if (lane == 0 && p.lse != nullptr) {
    p.lse[out_row * p.lse_row_stride + query.head * p.lse_head_stride] = lse;
  }
}

}  // namespace mpfa::kernels
