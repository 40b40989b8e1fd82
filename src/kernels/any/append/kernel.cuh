// The cache writer's kernel. A lane takes a block of sixteen values, L = d / 16 lanes a row (a
// token and KV head), a warp 32 / L consecutive tokens of one head at a time.
#pragma once

#include "kernels/any/append/dots.cuh"
#include "kernels/any/append/input.cuh"
#include "kernels/any/append/nvfp4.cuh"
#include "kernels/any/append/params.h"
#include "kernels/any/append/sequence.cuh"
#include "kernels/ptx/prefetch.cuh"

namespace mpfa::kernels {

inline constexpr int kAppendWarps = 4;

template <InputType kInput, int kDim>
struct AppendConfig {
  static constexpr InputType kType = kInput;
  static constexpr int kHeadDim = kDim;
  static constexpr int kLanes = kDim / kNvfp4BlockSize;
  static constexpr int kRows = 32 / kLanes;             // of a warp at a time
  static constexpr int kTokens = kAppendWarps * kRows;  // of a CTA at a time
  using Exchange = RowExchange<kDim>;
};

// The row that a lane works on.
struct AppendRow {
  uint32_t page = 0;
  uint32_t token = 0;  // within the page
  uint32_t head = 0;
  uint32_t stats_row = 0;  // 0 where nothing is written
  bool is_written = false;
  bool is_error = false;
};

__device__ __forceinline__ AppendRow find_row(const AppendParams& p, int64_t token, uint32_t head,
                                              int& sequence) {
  AppendRow row;
  row.head = head;
  if (token >= p.num_tokens) return row;
  const int64_t slot = __ldg(p.slots + token * p.slots_stride);
  // Read before the guess is known to be right: one wait instead of two.
  const int guess = max(sequence, 0);
  const int guessed_row = stats_row_of(p.sequences, guess);
  sequence = find_sequence(p.sequences, token, guess);
  if (slot == -1) return row;
  int stats_row = -1;
  if (sequence >= 0) {
    stats_row = sequence == guess ? guessed_row : stats_row_of(p.sequences, sequence);
  }
  row.is_written = slot >= 0 && slot < p.num_pages << p.page_shift && stats_row >= 0;
  row.is_error = !row.is_written;
  if (row.is_written) row.stats_row = static_cast<uint32_t>(stats_row);
  row.page = static_cast<uint32_t>(slot >> p.page_shift);
  row.token = static_cast<uint32_t>(slot) & ((1u << p.page_shift) - 1);
  return row;
}

__device__ __forceinline__ std::byte* place(std::byte* tensor, const PagedStrides& strides,
                                            const AppendRow& row, uint32_t head) {
  return tensor + row.page * strides.page + head * strides.head + row.token * strides.token;
}

template <int kBytes>
__device__ __forceinline__ void store_bytes(std::byte* to, const uint32_t (&words)[kBytes / 4],
                                            bool vectors) {
  if (!vectors) {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) to[i] = static_cast<std::byte>(words[i / 4] >> (8 * (i % 4)));
  } else if constexpr (kBytes == 16) {
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  } else if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    *reinterpret_cast<uint32_t*>(to) = words[0];
  }
}

// Every NaN that the cache holds is the positive one.
__device__ __forceinline__ uint32_t bf16_stored(float x) {
  return isnan(x) ? 0x7FC0u : bf16_from_float(x).bits;
}

__device__ __forceinline__ void store_bf16(std::byte* to, float x) {
  const uint32_t bits = bf16_stored(x);
  to[0] = static_cast<std::byte>(bits);
  to[1] = static_cast<std::byte>(bits >> 8);
}

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
    words[i] = ptx::e4m3x2(x[4 * i], x[4 * i + 1]) | ptx::e4m3x2(x[4 * i + 2], x[4 * i + 3]) << 16;
  }
  store_bytes<16>(place(p.v_out, p.v_out_strides, row, row.head) + in_row * 16, words,
                  p.output_vectors);
}

// A block of a centred key and what quantisation made of it.
struct KeyBlock {
  float centred[kNvfp4BlockSize];  // Kc; an infinite element counts as its K^
  float error[kNvfp4BlockSize];    // Kc - K^; 0 where Kc is infinite
};

// Quantises Kc / k_scale and writes codes and scales. All lanes of the warp take part.
template <InputType kType>
__device__ __forceinline__ KeyBlock write_key(const AppendParams& p, const AppendRow& row,
                                              const InputBlock<kType>& input,
                                              const float (&mean)[kNvfp4BlockSize],
                                              const ScaleEntry* table, int in_row) {
  float k_scale = 1.0f;
  if (p.k_scale != nullptr && row.is_written) {
    k_scale =
        __ldg(p.k_scale + row.stats_row * p.k_scale_strides[0] + row.head * p.k_scale_strides[1]);
  }
  KeyBlock key;
  float x[kNvfp4BlockSize];
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    key.centred[i] = __fsub_rn(input[i], mean[i]);
    x[i] = key.centred[i];
  }
  divide(x, k_scale);
  const QuantizedBlock block = quantize_block(x, p.scale_rule, table);
  if (row.is_written) {
    const uint32_t codes[2] = {block.codes.x, block.codes.y};
    store_bytes<8>(place(p.k_codes, p.k_codes_strides, row, row.head) + in_row * 8, codes,
                   p.output_vectors);
    place(p.k_scales, p.k_scales_strides, row, row.head)[in_row] =
        static_cast<std::byte>(block.scale);
  }
  if (k_scale != 1.0f) {
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fmul_rn(x[i], k_scale);
  }
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) key.error[i] = __fsub_rn(key.centred[i], x[i]);
  if (!block.is_finite) {
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; ++i) {
      if (!isinf(key.centred[i])) continue;
      key.error[i] = 0.0f;
      key.centred[i] = x[i];
    }
  }
  return key;
}

// delta_s: Q_mean . Kc for every query head of the group. All lanes of the warp take part.
template <class Config, bool kAligned>
__device__ __forceinline__ void write_delta(const AppendParams& p, const AppendRow& row,
                                            const float (&centred)[kNvfp4BlockSize], int in_row) {
  const uint32_t first_head = row.head * p.group_size;
  const int64_t stride = p.q_mean_strides[1];
  const float* q_mean = p.q_mean + row.stats_row * p.q_mean_strides[0] + first_head * stride;
  const int own = own_dot<Config::kHeadDim>(in_row);
  const bool writes = row.is_written && in_row % (Config::kLanes / kDotsAtOnce) == 0;
  std::byte* to = place(p.delta_s, p.delta_s_strides, row, first_head + own);
#pragma unroll 1
  for (int left = p.group_size; left > 0; left -= kDotsAtOnce) {
    const float dot = four_dots<Config::kHeadDim, kAligned>(centred, q_mean, stride, left, in_row);
    if (writes && own < left) store_bf16(to, dot);
    q_mean += kDotsAtOnce * stride;
    to += kDotsAtOnce * p.delta_s_strides.head;
  }
}

__device__ __forceinline__ const float* residual_scales(const AppendParams& p,
                                                        const AppendRow& row) {
  return p.residual_scale + row.stats_row * p.residual_scale_strides[0] +
         row.head * p.residual_scale_strides[1];
}

// p_j = e4m3((U_j . E) / p_scale_j); byte i of the result is the lane's, j = 4 i + own_dot(). All
// lanes of the warp take part.
template <class Config, bool kAligned>
__device__ __forceinline__ uint32_t write_residual(const AppendParams& p, const AppendRow& row,
                                                   const float (&error)[kNvfp4BlockSize],
                                                   const float* basis, int in_row) {
  constexpr int kDim = Config::kHeadDim;
  const float* scales = residual_scales(p, row);
  const int own = own_dot<kDim>(in_row);
  std::byte* to = place(p.k_residual, p.k_residual_strides, row, row.head);
  const int64_t stride = p.residual_basis_strides[2];
  const bool writes = row.is_written && in_row % (Config::kLanes / kDotsAtOnce) == 0;
  uint32_t codes = 0;
  // NOTE: not unrolled. A decode step runs through this code once, and its time is that of fetching
  // instructions.
#pragma unroll 1
  for (int j = 0; j < p.residual_rank; j += kDotsAtOnce, basis += kDotsAtOnce * stride) {
    const float p_scale = __ldg(scales + j + own);
    const float dot = four_dots<kDim, kAligned>(error, basis, stride, kDotsAtOnce, in_row);
    const uint8_t code = ptx::e4m3(__fdiv_rn(dot, p_scale));
    codes |= static_cast<uint32_t>(code) << (2 * j);
    if (writes) to[j + own] = static_cast<std::byte>(code);
  }
  return codes;
}

// k_first = (Kc - K^) - U^T (p_scale p), of the rows for which `writes` holds. All lanes of the
// warp take part.
template <class Config, bool kAligned>
__device__ __forceinline__ void write_first_key(const AppendParams& p, const AppendRow& row,
                                                const float (&error)[kNvfp4BlockSize],
                                                uint32_t codes, const float* basis, int in_row,
                                                bool writes) {
  constexpr int kLanes = Config::kLanes;
  const float* scales = residual_scales(p, row) + own_dot<Config::kHeadDim>(in_row);
  float restored[kNvfp4BlockSize] = {};
#pragma unroll 1
  for (int begin = 0; begin < p.residual_rank; begin += kDotsAtOnce) {
    const float own_value = e4m3_to_float({static_cast<uint8_t>(codes >> (2 * begin))});
    const float own_part = __fmul_rn(__ldg(scales + begin), own_value);
#pragma unroll
    for (int j = 0; j < kDotsAtOnce; ++j) {
      const float part = __shfl_sync(~0u, own_part, j * (kLanes / kDotsAtOnce), kLanes);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float2 pair = load_pair<Config::kHeadDim, kAligned>(basis, in_row, k);
        restored[2 * k] = __fadd_rn(restored[2 * k], __fmul_rn(pair.x, part));
        restored[2 * k + 1] = __fadd_rn(restored[2 * k + 1], __fmul_rn(pair.y, part));
      }
      basis += p.residual_basis_strides[2];
    }
  }
  if (!writes) return;
  std::byte* first = place(p.k_first, p.k_first_strides, row, row.head);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const uint32_t low = bf16_stored(__fsub_rn(error[2 * k], restored[2 * k]));
    const uint32_t high = bf16_stored(__fsub_rn(error[2 * k + 1], restored[2 * k + 1]));
    const uint32_t word[1] = {low | high << 16};
    store_bytes<4>(first + 4 * (in_row + kLanes * k), word, p.output_vectors);
  }
}

// Everything that is a dot product over the row. All lanes of the warp take part.
template <class Config, bool kAligned>
__device__ __forceinline__ void write_compensation(const AppendParams& p, const AppendRow& row,
                                                   const KeyBlock& key,
                                                   typename Config::Exchange& exchange, int lane) {
  const int in_row = lane % Config::kLanes;
  float x[kNvfp4BlockSize];
  if (p.delta_s != nullptr) {
    exchange.store(lane, key.centred);
    __syncwarp();
    exchange.load(lane, x);
    __syncwarp();
    write_delta<Config, kAligned>(p, row, x, in_row);
  }
  const bool starts_page = p.k_first != nullptr && row.is_written && row.token == 0;
  const bool has_first = __any_sync(~0u, starts_page);
  if (p.residual_rank == 0 && !has_first) return;
  exchange.store(lane, key.error);
  __syncwarp();
  exchange.load(lane, x);
  __syncwarp();
  const float* basis = p.residual_basis + row.stats_row * p.residual_basis_strides[0] +
                       row.head * p.residual_basis_strides[1];
  uint32_t codes = 0;
  if (p.residual_rank > 0) codes = write_residual<Config, kAligned>(p, row, x, basis, in_row);
  if (has_first) write_first_key<Config, kAligned>(p, row, x, codes, basis, in_row, starts_page);
}

// Fetches the vectors of all dot products while the key is being quantised.
__device__ __forceinline__ void prefetch_vectors(const AppendParams& p, const AppendRow& row,
                                                 int in_row) {
  const auto prefetch = [&](const float* vector, int64_t stride, int count) {
    vector += in_row * kNvfp4BlockSize;
#pragma unroll 1
    for (int i = 0; i < count; ++i, vector += stride) ptx::prefetch_l2(vector);
  };
  if (p.residual_rank > 0) {
    prefetch(p.residual_basis + row.stats_row * p.residual_basis_strides[0] +
                 row.head * p.residual_basis_strides[1],
             p.residual_basis_strides[2], p.residual_rank);
  }
  if (p.delta_s != nullptr) {
    const uint32_t first_head = row.head * p.group_size;
    prefetch(p.q_mean + row.stats_row * p.q_mean_strides[0] + first_head * p.q_mean_strides[1],
             p.q_mean_strides[1], p.group_size);
  }
}

// CTA i: head i % Hkv, tokens from i / Hkv * tokens_per_cta on.
template <class Config>
__global__ void __launch_bounds__(32 * kAppendWarps, Config::kType == InputType::kFp32 ? 3 : 5)
    append_kernel(const __grid_constant__ AppendParams p, int tokens_per_cta) {
  using Input = InputBlock<Config::kType>;
  __shared__ ScaleEntry table[kScaleEntries];
  __shared__ typename Config::Exchange exchanges[kAppendWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int in_row = lane % Config::kLanes;
  const uint32_t head = blockIdx.x % p.num_kv_heads;
  const int64_t begin = static_cast<int64_t>(blockIdx.x / p.num_kv_heads) * tokens_per_cta;
  int64_t token = begin + warp * Config::kRows + lane / Config::kLanes;

  // NOTE: inputs are read before anything says whether they are needed; in a decode step the time
  // is that of reads which wait for one another.
  const int64_t block_offset = in_row * kNvfp4BlockSize * kInputBytes<Config::kType>;
  const auto load = [&](Input& k, Input& v) {
    if (token >= p.num_tokens) {
      k.clear();
      v.clear();
      return;
    }
    k.load(p.k + token * p.k_token_stride + head * p.k_head_stride + block_offset, p.input_vectors);
    v.load(p.v + token * p.v_token_stride + head * p.v_head_stride + block_offset, p.input_vectors);
  };
  Input k, v;
  load(k, v);
  fill_scale_table(table, threadIdx.x, 32 * kAppendWarps);
  __syncthreads();

  int sequence = static_cast<int>(min(token, int64_t{p.sequences.batch_size} - 1));
  for (int done = 0; done < tokens_per_cta; done += Config::kTokens) {
    AppendRow row = find_row(p, token, head, sequence);
    if (row.is_error && head == 0 && in_row == 0 && p.error_count != nullptr) {
      atomicAdd(p.error_count, 1);
    }
    if (__any_sync(~0u, row.is_written)) {
      if (done == 0) prefetch_vectors(p, row, in_row);
      float mean[kNvfp4BlockSize];
      load_floats(p.k_mean + row.stats_row * p.k_mean_strides[0] + head * p.k_mean_strides[1] +
                      in_row * kNvfp4BlockSize,
                  p.stats_vectors, mean);
      if (row.is_written) write_value<Config::kType>(p, row, v, in_row);
      const KeyBlock key = write_key<Config::kType>(p, row, k, mean, table, in_row);
      if (p.stats_vectors) {
        write_compensation<Config, true>(p, row, key, exchanges[warp], lane);
      } else {
        write_compensation<Config, false>(p, row, key, exchanges[warp], lane);
      }
    }
    token += Config::kTokens;
    if (done + Config::kTokens < tokens_per_cta) load(k, v);
  }
}

template <class Config>
cudaError_t launch_append_as(const AppendParams& params, cudaStream_t stream) {
  // Several turns where there is work for all SMs: they share the means and the table of scales.
  constexpr int64_t kManyRows = 32768;
  const int turns = params.num_tokens * params.num_kv_heads >= kManyRows ? 4 : 1;
  const int tokens_per_cta = turns * Config::kTokens;
  const int64_t ctas =
      (params.num_tokens + tokens_per_cta - 1) / tokens_per_cta * params.num_kv_heads;
  if (ctas > INT32_MAX) return cudaErrorInvalidValue;
  append_kernel<Config>
      <<<static_cast<unsigned>(ctas), 32 * kAppendWarps, 0, stream>>>(params, tokens_per_cta);
  return cudaGetLastError();
}

}  // namespace mpfa::kernels
