// States of warps and of CTAs become one (docs/spec.md, section 3): each is an output divided by
// its sum of probabilities, in FP16, and that sum with the offset of its exponents (softmax.cuh).
#pragma once

#include "kernels/any/decode/denominator.cuh"
#include "kernels/any/decode/values.cuh"
#include "kernels/ptx/atomic.cuh"

namespace mpfa::kernels {

// A state in memory: rows of FP16 outputs, then a weight for each row: offset and sum. kNoKey as
// the offset: no key.
template <class Config>
struct StateView {
  std::byte* base;

  // Byte of dims 8 * chunk to 8 * chunk + 7 of a row. Chunks are exchanged so that the rows of a
  // quad of lanes meet different banks of shared memory.
  __device__ __forceinline__ static int output_at(int row, int chunk) {
    const int exchanged = chunk ^ ((row >> 1 & 1) | (row >> 2 & 1) << 2);
    return row * Config::kHeadDim * 2 + exchanged * 16;
  }
  __device__ __forceinline__ static int weight_at(int row) {
    return Config::kRows * Config::kHeadDim * 2 + row * 8;
  }

  template <class T>
  __device__ __forceinline__ T* at(int byte) const {
    return reinterpret_cast<T*>(base + byte);
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
        *state.template at<uint4>(state.output_at(row, (g * Config::kSteps + j) / 4)) =
            make_uint4(packed[j], packed[j + 1], packed[j + 2], packed[j + 3]);
      }
      if (g == 0) {
        *state.template at<float2>(state.weight_at(row)) = make_float2(softmax.offset[n][i], sum);
      }
    }
  }
}

// A row of states as a warp reads it: a lane has eight dims of every kGroups-th state.
template <class Config>
struct MergeLane {
  static constexpr int kChunks = Config::kHeadDim / 8;
  static constexpr int kGroups = 32 / kChunks;
  int group;  // states group, group + kGroups, ...
  int chunk;  // dims [8 * chunk, +8)

  __device__ explicit MergeLane(int lane) : group(lane / kChunks), chunk(lane % kChunks) {}
};

// What a row's states add up to, in one lane: its dims, divided by the sum.
struct MergedRow {
  float output[8];
  float offset;  // of the sum
  float sum;
};

// Where states lie: number 0 at `first`, number i > 0 at others + i * stride.
struct StateList {
  const std::byte* first;
  const std::byte* others;
  int stride;
  int count;

  __device__ __forceinline__ const std::byte* operator[](int i) const {
    return i == 0 ? first : others + int64_t{i} * stride;
  }
};

// Who writes the states that are merged.
enum class Writers {
  kWarps,  // of this CTA, before a barrier: they lie in shared memory
  kCtas,   // any, at any time: they lie in global memory, kNotWritten until they are written
};

// A lane's share of a row of several states, and the weight of the one whose number is the lane's.
template <Writers kWriters, class Config>
struct StateWords {
  // All on their way at once: each read takes as long as hundreds of instructions.
  static constexpr int kStates = 8;
  uint4 outputs[kStates];
  uint2 weight;

  // Of `count` states from number `first` on; zeros for the rest.
  __device__ __forceinline__ void load(const StateList& states, int first, int count, int row,
                                       int lane) {
    using View = StateView<Config>;
    const MergeLane<Config> own(lane);
    weight = make_uint2(0, 0);
    if (lane < count) weight = load<uint2>(states[first + lane] + View::weight_at(row));
    const int at = View::output_at(row, own.chunk);
    const std::byte* from = states[first + own.group] + at;
    const std::byte* next = states.others + int64_t{first + own.group} * states.stride + at;
    const int step = MergeLane<Config>::kGroups * states.stride;
#pragma unroll
    for (int i = 0; i < kStates; ++i) {
      outputs[i] = make_uint4(0, 0, 0, 0);
      if (own.group + i * MergeLane<Config>::kGroups < count) outputs[i] = load<uint4>(from);
      next += step;
      from = next;
    }
  }

  // Another CTA has not written all of it yet.
  __device__ __forceinline__ bool is_missing() const {
    uint32_t most = max(weight.x, weight.y);
#pragma unroll
    for (const uint4& words : outputs) {
      most = max(most, max(max(words.x, words.y), max(words.z, words.w)));
    }
    return most == kNotWritten;
  }

 private:
  template <class T>
  __device__ __forceinline__ static T load(const std::byte* from) {
    if constexpr (kWriters == Writers::kCtas) {
      return ptx::load_relaxed(reinterpret_cast<const T*>(from));
    } else {
      return *reinterpret_cast<const T*>(from);
    }
  }
};

// output += weight * the eight FP16 values of `words`.
__device__ __forceinline__ void add_words(float (&output)[8], float weight, const uint4& words) {
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    output[2 * j] = fmaf(weight, ptx::low_f16(pairs[j]), output[2 * j]);
    output[2 * j + 1] = fmaf(weight, ptx::high_f16(pairs[j]), output[2 * j + 1]);
  }
}

// Adds `count` states, from number `first` on, to what there is; those of a lane's group.
template <Writers kWriters, class Config>
__device__ __forceinline__ void add_states(const StateList& states, int first, int count, int row,
                                           int lane, MergedRow& merged) {
  using Words = StateWords<kWriters, Config>;
  Words words;
  words.load(states, first, count, row, lane);
  if constexpr (kWriters == Writers::kCtas) {
    while (__any_sync(~0u, words.is_missing())) words.load(states, first, count, row, lane);
  }
  const float offset = lane < count ? __uint_as_float(words.weight.x) : kNoKey;
  float least = fminf(merged.offset, offset);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    least = fminf(least, __shfl_xor_sync(~0u, least, step));
  }
  const float factor = ptx::exp2_approx(least - merged.offset);  // of what there is so far
  merged.offset = least;
  merged.sum *= factor;
#pragma unroll
  for (float& x : merged.output) x *= factor;
  const float weight =
      offset == kNoKey ? 0.0f : __uint_as_float(words.weight.y) * ptx::exp2_approx(least - offset);
  const MergeLane<Config> own(lane);
#pragma unroll
  for (int i = 0; i < Words::kStates; ++i) {
    const float of_state = __shfl_sync(~0u, weight, own.group + i * MergeLane<Config>::kGroups);
    merged.sum += of_state;
    add_words(merged.output, of_state, words.outputs[i]);
  }
}

// Adds states up. The order of additions is that of the list, whoever adds them. States of other
// CTAs are waited for.
template <Writers kWriters, class Config>
__device__ __forceinline__ MergedRow merge_row(const StateList& states, int row, int lane) {
  constexpr int kAtATime = StateWords<kWriters, Config>::kStates * MergeLane<Config>::kGroups;
  static_assert(kAtATime <= 32);
  MergedRow merged;
  merged.sum = 0.0f;
  merged.offset = kNoKey;
#pragma unroll
  for (float& x : merged.output) x = 0.0f;
#pragma unroll 1
  for (int first = 0; first < states.count; first += kAtATime) {
    const int count = min(kAtATime, states.count - first);
    add_states<kWriters, Config>(states, first, count, row, lane, merged);
  }
#pragma unroll
  for (int step = MergeLane<Config>::kChunks; step < 32; step *= 2) {
    merged.sum += __shfl_xor_sync(~0u, merged.sum, step);
#pragma unroll
    for (float& x : merged.output) x += __shfl_xor_sync(~0u, x, step);
  }
  const float inverse = merged.offset == kNoKey ? 0.0f : ptx::reciprocal_approx(merged.sum);
#pragma unroll
  for (float& x : merged.output) x *= inverse;
  return merged;
}

// Writes a merged row as a partial state, for whichever CTA waits for it.
template <class Config>
__device__ __forceinline__ void store_partial(const MergedRow& merged,
                                              const StateView<Config>& state, int row, int lane) {
  const MergeLane<Config> own(lane);
  if (own.group != 0) return;
  const float* x = merged.output;
  ptx::store_relaxed(state.template at<uint4>(state.output_at(row, own.chunk)),
                     make_uint4(ptx::f16x2(x[0], x[1]), ptx::f16x2(x[2], x[3]),
                                ptx::f16x2(x[4], x[5]), ptx::f16x2(x[6], x[7])));
  if (lane == 0) {
    ptx::store_relaxed(state.template at<uint2>(state.weight_at(row)),
                       make_uint2(__float_as_uint(merged.offset), __float_as_uint(merged.sum)));
  }
}

// Eight values of BF16 or FP16, aligned to their own size or better.
__device__ __forceinline__ void store_16bit(std::byte* to, const uint4& words) {
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    *reinterpret_cast<uint4*>(to) = words;
    return;
  }
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    reinterpret_cast<uint16_t*>(to)[j] = static_cast<uint16_t>(pairs[j / 2] >> (16 * (j % 2)));
  }
}

// Writes a merged row as the result.
template <class Config>
__device__ __forceinline__ void store_result(const DecodeParams& p, const DecodeSegment& segment,
                                             const MergedRow& merged, const RowEnd& end, int row,
                                             int lane) {
  if (end.out == nullptr) return;
  float factor = end.v_scale;
  if (p.needs_rowbias) {
    factor *= finish_denominator(p, segment, query_row(p, segment, row), merged.offset, merged.sum,
                                 end.bias, lane == 0);
  }
  const MergeLane<Config> own(lane);
  if (own.group != 0) return;
  uint32_t pairs[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float low = merged.output[2 * j] * factor;
    const float high = merged.output[2 * j + 1] * factor;
    pairs[j] = p.is_bf16 != 0 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
  }
  store_16bit(end.out + own.chunk * 16, make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
}

}  // namespace mpfa::kernels
