// The cache writer's kernel. A lane takes a block of sixteen values, L = d / 16 lanes a row (a
// token and KV head), a warp 32 / L consecutive tokens of one head at a time.
// docs/perf/append-h200.md has the measurements behind the choices.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/any/append/compensation.cuh"
#include "kernels/any/append/input.cuh"
#include "kernels/any/append/key.cuh"
#include "kernels/any/append/params.h"
#include "kernels/any/append/row.cuh"

namespace mpfa::kernels {

// kCompensates: delta_s, residual and first key, whatever of them there is.
template <InputType kInput, int kDim, bool kCompensates>
struct AppendConfig {
  static constexpr InputType kType = kInput;
  static constexpr int kHeadDim = kDim;
  static constexpr bool kHasCompensation = kCompensates;
  static constexpr int kLanes = kDim / kNvfp4BlockSize;
  static constexpr int kRows = 32 / kLanes;  // of a warp at a time
  static constexpr int kCtasPerSm = kType == InputType::kFp32 ? 3 : (kCompensates ? 4 : 6);
};

// V as e4m3(V / v_scale).
template <InputType kType>
__device__ __forceinline__ void write_value(const AppendParams& p, const AppendRow& row,
                                            const InputBlock<kType>& input, int in_row) {
  const float scale = p.v_scale == nullptr
                          ? 1.0f
                          : __ldg(p.v_scale + row.stats_row * p.v_scale_strides[0] +
                                  row.head * p.v_scale_strides[1]);
  float x[kNvfp4BlockSize];
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = input[i];
  divide(x, scale);
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = ptx::e4m3x4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
  }
  store_bytes<16>(place(p.v_out, p.v_out_strides, row, row.head) + in_row * 16, words,
                  p.output_vectors);
}

// What a lane reads for a row: its blocks of K and V and where the row goes.
template <InputType kType>
struct RowInput {
  InputBlock<kType> k, v;
  int64_t slot;

  // NOTE: all is read before anything says whether it is needed; in a decode step the time is that
  // of reads which wait for one another.
  __device__ __forceinline__ void load(const AppendParams& p, int token, int end, uint32_t head,
                                       int in_row) {
    slot = -1;
    if (token >= end) return;
    const int64_t offset = in_row * kNvfp4BlockSize * kInputBytes<kType>;
    k.load(p.k + head * p.k_head_stride + token * p.k_token_stride + offset, p.input_vectors);
    v.load(p.v + head * p.v_head_stride + token * p.v_token_stride + offset, p.input_vectors);
    slot = __ldg(p.slots + token * p.slots_stride);
  }
};

struct Nothing {};

// CTA i: head i % Hkv, tokens from i / Hkv * tokens_per_cta on.
template <class Config>
__global__ void __launch_bounds__(32 * kAppendWarps, Config::kCtasPerSm)
    append_kernel(const __grid_constant__ AppendParams p, int tokens_per_cta) {
  constexpr int kDim = Config::kHeadDim;
  using Shared = std::conditional_t<Config::kHasCompensation, CompensationShared<kDim>, Nothing>;
  __shared__ ScaleEntry scales[kScaleEntries];
  __shared__ Shared shared;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int lane = threadIdx.x % 32;
  const int in_row = lane % Config::kLanes;
  const uint32_t head = blockIdx.x % p.num_kv_heads;
  const int chunk = blockIdx.x / p.num_kv_heads;
  const int begin = chunk * tokens_per_cta;
  const int end = min(begin + tokens_per_cta, static_cast<int>(p.num_tokens));
  // Warps that get one turn more than others are not the same ones in all CTAs.
  int token = begin + (warp + chunk) % warps * Config::kRows + lane / Config::kLanes;

  RowInput<Config::kType> input;
  input.k.clear();
  input.v.clear();
  input.load(p, token, end, head, in_row);
  SequenceCursor cursor = guess_sequence(p.sequences, token);
  fill_scale_table(scales, threadIdx.x, blockDim.x);
  if constexpr (Config::kHasCompensation) prepare_compensation<kDim>(p, begin, head, shared);
  __syncthreads();

  for (; __any_sync(~0u, token < end); token += warps * Config::kRows) {
    const AppendRow row = find_row(p, token, head, input.slot, cursor);
    if (row.is_error && head == 0 && in_row == 0 && p.error_count != nullptr) {
      atomicAdd(p.error_count, 1);
    }
    KeyBlock key;
    load_floats(p.k_mean + row.stats_row * p.k_mean_strides[0] + head * p.k_mean_strides[1] +
                    in_row * kNvfp4BlockSize,
                p.stats_vectors, key.centred);
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; ++i) {
      key.centred[i] = __fsub_rn(input.k[i], key.centred[i]);
    }
    if (row.is_written) write_value<Config::kType>(p, row, input.v, in_row);
    input.load(p, token + warps * Config::kRows, end, head, in_row);
    if (!__any_sync(~0u, row.is_written)) continue;
    write_key(p, row, scales, in_row, key);
    if constexpr (Config::kHasCompensation) write_compensation<kDim>(p, row, key, shared);
  }
}

// Multiprocessors of the current device; 0 where CUDA does not tell.
inline int sm_count() {
  int device = 0;
  int count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 0;
  }
  return count;
}

template <class Config>
cudaError_t launch_append_as(const AppendParams& params, cudaStream_t stream) {
  constexpr int kRows = Config::kRows;
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  // All CTAs at once, each with as many tokens, share scales and basis. Without a basis several
  // rounds of CTAs are better: warps of one CTA do not finish together.
  constexpr int64_t kMinTurns = 2;
  constexpr int64_t kMaxTurns = Config::kHasCompensation ? INT32_MAX / kRows : 32;
  const int64_t ctas_at_once = int64_t{sm_count()} * Config::kCtasPerSm;
  const int64_t chunks = std::max<int64_t>(ctas_at_once / params.num_kv_heads, 1);
  const int64_t even_share = divide_up(divide_up(params.num_tokens, chunks), kRows);
  const int64_t turns = std::clamp(even_share, kMinTurns, kMaxTurns);  // of all warps of a CTA
  const int64_t tokens_per_cta = turns * kRows;
  const int64_t ctas = divide_up(params.num_tokens, tokens_per_cta) * params.num_kv_heads;
  if (ctas > INT32_MAX || tokens_per_cta > INT32_MAX) return cudaErrorInvalidValue;
  const auto threads = static_cast<unsigned>(32 * std::min<int64_t>(turns, kAppendWarps));
  append_kernel<Config><<<static_cast<unsigned>(ctas), threads, 0, stream>>>(
      params, static_cast<int>(tokens_per_cta));
  return cudaGetLastError();
}

}  // namespace mpfa::kernels
