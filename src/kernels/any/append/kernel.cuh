// The cache writer's kernel. A lane takes a block of sixteen values, L = d / 16 lanes a row (a token
// and KV head), a warp 32 / L consecutive tokens of one head at a time.
#pragma once

#include "kernels/any/append/dots.cuh"
#include "kernels/any/append/input.cuh"
#include "kernels/any/append/nvfp4.cuh"
#include "kernels/any/append/params.h"
#include "kernels/any/append/sequence.cuh"

namespace mpfa::kernels {

inline constexpr int kAppendWarps = 4;

template <InputType kInput, int kDim>
struct AppendConfig {
  static constexpr InputType kType = kInput;
  static constexpr int kHeadDim = kDim;
  static constexpr int kLanes = kDim / kNvfp4BlockSize;
  static constexpr int kRows = 32 / kLanes;               // of a warp at a time
  static constexpr int kTokens = kAppendWarps * kRows;    // of a CTA at a time
  using Exchange = RowExchange<kDim>;
};

// The row that a lane works on.
struct AppendRow {
  int64_t page = 0;
  int64_t token = 0;  // within the page
  int head = 0;
  int stats_row = 0;
  bool is_written = false;
  bool is_error = false;
};

__device__ __forceinline__ AppendRow find_row(const AppendParams& p, int64_t token, int head,
                                              int& sequence) {
  AppendRow row;
  row.head = head;
  if (token >= p.num_tokens) return row;
  const int64_t slot = __ldg(p.slots + token * p.slots_stride);
  sequence = find_sequence(p.sequences, token, max(sequence, 0));
  if (slot == -1) return row;
  row.stats_row = sequence < 0 ? -1 : stats_row_of(p.sequences, sequence);
  row.is_written = slot >= 0 && slot < p.num_pages << p.page_shift && row.stats_row >= 0;
  row.is_error = !row.is_written;
  row.page = slot >> p.page_shift;
  row.token = slot & ((1 << p.page_shift) - 1);
  return row;
}

__device__ __forceinline__ std::byte* place(std::byte* tensor, const CacheStrides& strides,
                                            const AppendRow& row, int64_t head) {
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
    k_scale = __ldg(p.k_scale + row.stats_row * p.k_scale_strides[0] +
                    row.head * p.k_scale_strides[1]);
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
    for (float& value : x) value = __fmul_rn(value, k_scale);
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
template <class Config>
__device__ __forceinline__ void write_delta(const AppendParams& p, const AppendRow& row,
                                            const float (&centred)[kNvfp4BlockSize], int in_row) {
  const int64_t first_head = static_cast<int64_t>(row.head) * p.group_size;
  const float* q_mean = p.q_mean + row.stats_row * p.q_mean_strides[0];
  const bool writes = row.is_written && in_row % (Config::kLanes / kDotsAtOnce) == 0;
#pragma unroll 1
  for (int g = 0; g < p.group_size; g += kDotsAtOnce) {
    const int count = min(p.group_size - g, kDotsAtOnce);
    const float dot = four_dots<Config::kHeadDim>(
        centred, q_mean + (first_head + g) * p.q_mean_strides[1], p.q_mean_strides[1], count,
        in_row, p.stats_vectors);
    const int own = own_dot<Config::kHeadDim>(in_row);
    if (writes && own < count) {
      store_bf16(place(p.delta_s, p.delta_s_strides, row, first_head + g + own), dot);
    }
  }
}

// What of a row's error the residual gives back: p_scale_j * p_j, j = 4 i + own_dot() in parts[i].
struct ResidualParts {
  static constexpr int kMaxParts = 4;
  float parts[kMaxParts];
};

// p_j = e4m3((U_j . E) / p_scale_j). All lanes of the warp take part.
template <class Config>
__device__ __forceinline__ ResidualParts write_residual(const AppendParams& p,
                                                        const AppendRow& row,
                                                        const float (&error)[kNvfp4BlockSize],
                                                        const float* basis, int in_row) {
  const float* scales = p.residual_scale + row.stats_row * p.residual_scale_strides[0] +
                        row.head * p.residual_scale_strides[1];
  const bool writes = row.is_written && in_row % (Config::kLanes / kDotsAtOnce) == 0;
  const int own = own_dot<Config::kHeadDim>(in_row);
  ResidualParts result;
#pragma unroll
  for (int i = 0; i < ResidualParts::kMaxParts; ++i) {
    result.parts[i] = 0.0f;
    const int j = i * kDotsAtOnce;
    if (j >= p.residual_rank) continue;
    const float dot = four_dots<Config::kHeadDim>(
        error, basis + j * p.residual_basis_strides[2], p.residual_basis_strides[2], kDotsAtOnce,
        in_row, p.stats_vectors);
    const float p_scale = __ldg(scales + j + own);
    const uint8_t code = ptx::e4m3(__fdiv_rn(dot, p_scale));
    result.parts[i] = __fmul_rn(p_scale, e4m3_to_float({code}));
    if (writes) {
      place(p.k_residual, p.k_residual_strides, row, row.head)[j + own] =
          static_cast<std::byte>(code);
    }
  }
  return result;
}

// k_first = (Kc - K^) - U^T (p_scale p), of the rows for which `writes` holds. All lanes of the warp
// take part.
template <class Config>
__device__ __forceinline__ void write_first_key(const AppendParams& p, const AppendRow& row,
                                                const float (&error)[kNvfp4BlockSize],
                                                const ResidualParts& residual, const float* basis,
                                                int in_row, bool writes) {
  constexpr int kLanes = Config::kLanes;
  float restored[kNvfp4BlockSize] = {};
#pragma unroll
  for (int i = 0; i < ResidualParts::kMaxParts; ++i) {
    if (i * kDotsAtOnce >= p.residual_rank) continue;
#pragma unroll 1
    for (int j = 0; j < kDotsAtOnce; ++j) {
      const float part =
          __shfl_sync(~0u, residual.parts[i], j * (kLanes / kDotsAtOnce), kLanes);
      const float* u = basis + (i * kDotsAtOnce + j) * p.residual_basis_strides[2];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float2 pair = load_pair<Config::kHeadDim>(u, in_row, k, p.stats_vectors);
        restored[2 * k] = __fadd_rn(restored[2 * k], __fmul_rn(pair.x, part));
        restored[2 * k + 1] = __fadd_rn(restored[2 * k + 1], __fmul_rn(pair.y, part));
      }
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
template <class Config>
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
    write_delta<Config>(p, row, x, in_row);
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
  ResidualParts residual = {};
  if (p.residual_rank > 0) residual = write_residual<Config>(p, row, x, basis, in_row);
  if (has_first) write_first_key<Config>(p, row, x, residual, basis, in_row, starts_page);
}

// CTA i: head i % Hkv, tokens from i / Hkv * tokens_per_cta on.
template <class Config>
__global__ void __launch_bounds__(32 * kAppendWarps,
                                  Config::kType == InputType::kFp32 ? 3 : 4)
    append_kernel(const __grid_constant__ AppendParams p, int tokens_per_cta) {
  using Input = InputBlock<Config::kType>;
  __shared__ ScaleEntry table[kScaleEntries];
  __shared__ typename Config::Exchange exchanges[kAppendWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int in_row = lane % Config::kLanes;
  const int head = blockIdx.x % p.num_kv_heads;
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
    k.load(p.k + token * p.k_token_stride + head * p.k_head_stride + block_offset,
           p.input_vectors);
    v.load(p.v + token * p.v_token_stride + head * p.v_head_stride + block_offset,
           p.input_vectors);
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
    if (!row.is_written) row.stats_row = 0;  // a row that exists
    if (__any_sync(~0u, row.is_written)) {
      float mean[kNvfp4BlockSize];
      load_floats(p.k_mean + row.stats_row * p.k_mean_strides[0] + head * p.k_mean_strides[1] +
                      in_row * kNvfp4BlockSize,
                  p.stats_vectors, mean);
      if (row.is_written) write_value<Config::kType>(p, row, v, in_row);
      const KeyBlock key = write_key<Config::kType>(p, row, k, mean, table, in_row);
      write_compensation<Config>(p, row, key, exchanges[warp], lane);
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
  append_kernel<Config><<<static_cast<unsigned>(ctas), 32 * kAppendWarps, 0, stream>>>(
      params, tokens_per_cta);
  return cudaGetLastError();
}

}  // namespace mpfa::kernels
