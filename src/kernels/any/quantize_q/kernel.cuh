// A row (a token and head) has L lanes of a warp, a power of two; a lane quantises one block of
// sixteen values, or two where d is more than 512. For dot products it takes the values
// l + L * k of the row from shared memory, so that the first halvings need no other lane.
#pragma once

#include "kernels/any/append/input.cuh"
#include "kernels/any/append/nvfp4.cuh"
#include "kernels/any/append/sequence.cuh"
#include "kernels/any/quantize_q/params.h"

namespace mpfa::kernels {

inline constexpr int kQueryWarps = 4;

// Where a lane's row stands.
struct QueryPlace {
  int64_t token = 0;
  int head = 0;
  int kv_head = 0;
  int sequence = 0;
  int stats_row = 0;
  bool is_written = false;
};

__device__ __forceinline__ QueryPlace find_query(const QuantizeQParams& p, int64_t row) {
  QueryPlace at;
  at.token = row / p.num_q_heads;
  if (at.token >= p.num_tokens) return QueryPlace();
  at.head = static_cast<int>(row % p.num_q_heads);
  at.kv_head = at.head / (p.num_q_heads / p.num_kv_heads);
  const int guess = static_cast<int>(min(at.token, int64_t{p.sequences.batch_size} - 1));
  at.sequence = find_sequence(p.sequences, at.token, guess);
  if (at.sequence < 0) return QueryPlace();
  at.stats_row = stats_row_of(p.sequences, at.sequence);
  at.is_written = at.stats_row >= 0;
  return at;
}

template <class T>
__device__ __forceinline__ T* place(T* tensor, const int64_t (&strides)[2], int64_t first,
                                    int64_t second) {
  return tensor + first * strides[0] + second * strides[1];
}

// What `product(0)` to `product(kValues - 1)` are at place k after halvings down to kHalf.
template <int kHalf, int kValues, class Product>
__device__ __forceinline__ float sum_by_halves(int k, const Product& product) {
  if constexpr (kHalf == kValues) {
    return product(k);
  } else {
    return __fadd_rn(sum_by_halves<2 * kHalf, kValues>(k, product),
                     sum_by_halves<2 * kHalf, kValues>(k + kHalf, product));
  }
}

// The product of a vector and a row in shared memory; every lane of the row returns it. All lanes
// of the warp take part.
template <int kValues, class Load>
__device__ __forceinline__ float dot_of_row(const float* row, int lanes, int in_row, Load vector) {
  float total = sum_by_halves<1, kValues>(0, [&](int k) {
    const int i = in_row + lanes * k;
    return __fmul_rn(vector(i), row[i]);
  });
  for (int step = lanes / 2; step >= 1; step /= 2) {
    total = __fadd_rn(total, __shfl_xor_sync(~0u, total, step));
  }
  return total;
}

// q and x: the row in shared memory, with its mean and without. All lanes of the warp take part.
template <int kValues>
__device__ __forceinline__ void write_dots(const QuantizeQParams& p, const QueryPlace& at,
                                           const float* q, const float* x, int lanes, int in_row) {
  const bool writes = at.is_written && in_row == 0;
  const int stats_row = at.is_written ? at.stats_row : 0;  // a row that exists
  if (p.rowbias != nullptr) {
    const float* mean = place(p.k_mean, p.k_mean_strides, stats_row, at.kv_head);
    const float dot = dot_of_row<kValues>(q, lanes, in_row, [&](int i) { return __ldg(mean + i); });
    if (writes) *place(p.rowbias, p.rowbias_strides, at.token, at.head) = dot;
  }
  if (p.residual != nullptr) {
    const float* basis = p.residual_basis + stats_row * p.residual_basis_strides[0] +
                         at.kv_head * p.residual_basis_strides[1];
#pragma unroll 1
    for (int j = 0; j < p.residual_rank; ++j, basis += p.residual_basis_strides[2]) {
      const float dot =
          dot_of_row<kValues>(x, lanes, in_row, [&](int i) { return __ldg(basis + i); });
      if (writes) place(p.residual, p.residual_strides, at.token, at.head)[j] = dot;
    }
  }
  if (p.first_key != nullptr) {
    const auto* first = reinterpret_cast<const uint16_t*>(
        place(p.k_first, p.k_first_strides, max(at.sequence, 0), at.kv_head));
    const float dot = dot_of_row<kValues>(x, lanes, in_row,
                                          [&](int i) { return bf16_to_float({__ldg(first + i)}); });
    if (writes) *place(p.first_key, p.first_key_strides, at.token, at.head) = dot;
  }
}

__device__ __forceinline__ void store_block(float* to, const float (&x)[kNvfp4BlockSize]) {
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; i += 4) {
    *reinterpret_cast<float4*>(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
  }
}

// Writes NVFP4(x) and leaves in x what it lost. All lanes of the warp take part.
__device__ __forceinline__ void write_term(float (&x)[kNvfp4BlockSize], const QuantizeQParams& p,
                                           std::byte* codes, std::byte* scale,
                                           const ScaleEntry* table, bool writes) {
  float quantized[kNvfp4BlockSize];
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) quantized[i] = x[i];
  const QuantizedBlock block = quantize_block(quantized, p.scale_rule, table);
  restore(quantized, block);
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fsub_rn(x[i], quantized[i]);
  if (!writes) return;
  *scale = static_cast<std::byte>(block.scale);
  if (p.output_vectors) {
    *reinterpret_cast<uint2*>(codes) = block.codes;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    codes[i] = static_cast<std::byte>((i < 4 ? block.codes.x : block.codes.y) >> (8 * (i % 4)));
  }
}

template <InputType kType, int kBlocks>
__global__ void __launch_bounds__(32 * kQueryWarps, kBlocks == 1 ? 4 : 2)
    quantize_q_kernel(const __grid_constant__ QuantizeQParams p, int lanes, int turns) {
  constexpr int kRowValues = kNvfp4BlockSize * kBlocks;
  __shared__ ScaleEntry table[kScaleEntries];
  __shared__ alignas(16) float rows[kQueryWarps][2][32 * kRowValues];  // q and x
  fill_scale_table(table, threadIdx.x, 32 * kQueryWarps);
  __syncthreads();

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int in_row = lane % lanes;
  const int own_row = lane / lanes;
  float* q_row = rows[warp][0] + own_row * p.head_dim;
  float* x_row = rows[warp][1] + own_row * p.head_dim;
  const bool has_dots = p.rowbias != nullptr || p.residual != nullptr || p.first_key != nullptr;
  const int rows_at_once = kQueryWarps * 32 / lanes;
  int64_t row = int64_t{blockIdx.x} * turns * rows_at_once + warp * (32 / lanes) + own_row;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn, row += rows_at_once) {
    const QueryPlace at = find_query(p, row);
    if (at.stats_row < 0 && at.head == 0 && in_row == 0 && p.error_count != nullptr) {
      atomicAdd(p.error_count, 1);
    }

    float x[kBlocks][kNvfp4BlockSize];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const int begin = (in_row + b * lanes) * kNvfp4BlockSize;
#pragma unroll
      for (int i = 0; i < kNvfp4BlockSize; ++i) x[b][i] = 0.0f;
      if (begin >= p.head_dim) continue;
      if (at.is_written) {
        InputBlock<kType> input;
        input.load(place(p.q, p.q_strides, at.token, at.head) + begin * kInputBytes<kType>,
                   p.input_vectors);
#pragma unroll
        for (int i = 0; i < kNvfp4BlockSize; ++i) x[b][i] = input[i];
      }
      if (has_dots) store_block(q_row + begin, x[b]);
      if (at.is_written && p.q_mean != nullptr) {
        float mean[kNvfp4BlockSize];
        load_floats(place(p.q_mean, p.q_mean_strides, at.stats_row, at.head) + begin,
                    p.stats_vectors, mean);
#pragma unroll
        for (int i = 0; i < kNvfp4BlockSize; ++i) x[b][i] = __fsub_rn(x[b][i], mean[i]);
      }
      if (has_dots) store_block(x_row + begin, x[b]);
    }
    if (has_dots) {
      __syncwarp();
      write_dots<kRowValues>(p, at, q_row, x_row, lanes, in_row);
      __syncwarp();
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const int block = in_row + b * lanes;
      const bool writes = at.is_written && block * kNvfp4BlockSize < p.head_dim;
      write_term(x[b], p, place(p.codes, p.codes_strides, at.token, at.head) + 8 * block,
                 place(p.scales, p.scales_strides, at.token, at.head) + block, table, writes);
      if (p.codes2 != nullptr) {
        write_term(x[b], p, place(p.codes2, p.codes2_strides, at.token, at.head) + 8 * block,
                   place(p.scales2, p.scales2_strides, at.token, at.head) + block, table, writes);
      }
    }
  }
}

}  // namespace mpfa::kernels
