// What a cache keeps of a key beside its codes: delta_s, residual and first key (docs/spec.md,
// section 2). All lanes of a warp take part in everything here.
#pragma once

#include "kernels/any/append/dots.cuh"
#include "kernels/any/append/key.cuh"
#include "kernels/any/append/rough_residual.cuh"
#include "kernels/any/append/row.cuh"
#include "kernels/ptx/prefetch.cuh"

namespace mpfa::kernels {

inline constexpr int kMaxResidualRank = 16;

// A warp's rows in shared memory.
template <int kDim>
struct WarpRows {
  RowExchange<kDim> exchange;
  uint8_t codes[RowExchange<kDim>::kRows][kMaxResidualRank];  // of the residual
};

// What a CTA keeps in shared memory.
template <int kDim>
struct CompensationShared {
  WarpRows<kDim> rows[kAppendWarps];
  BasisOperand<kDim> basis;
  uint32_t basis_row;  // the row of statistics that it is of
};

// delta_s: Q_mean . Kc for every query head of the group.
template <int kDim>
__device__ __forceinline__ void write_delta(const AppendParams& p, const AppendRow& row,
                                            const float (&centred)[kNvfp4BlockSize], int in_row) {
  const uint32_t first_head = row.head * p.group_size;
  const int64_t stride = p.q_mean_strides[1];
  const float* q_mean = p.q_mean + row.stats_row * p.q_mean_strides[0] + first_head * stride;
  const int own = own_dot<kDim>(in_row);
  const bool writes = row.is_written && in_row % (RowExchange<kDim>::kLanes / kDotsAtOnce) == 0;
  std::byte* to = place(p.delta_s, p.delta_s_strides, row, first_head + own);
#pragma unroll 1
  for (int left = p.group_size; left > 0; left -= kDotsAtOnce) {
    const float dot = four_dots<kDim>(centred, q_mean, stride, left, in_row, p.stats_vectors);
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

__device__ __forceinline__ const float* residual_basis(const AppendParams& p, uint32_t stats_row,
                                                       uint32_t head) {
  return p.residual_basis + stats_row * p.residual_basis_strides[0] +
         head * p.residual_basis_strides[1];
}

// Writes a code of the lane's row, and to shared memory for write_first_keys().
template <int kDim>
__device__ __forceinline__ void keep_code(const AppendParams& p, const AppendRow& row,
                                          WarpRows<kDim>& rows, int lane, int j, uint32_t code) {
  if (!row.is_written) return;
  rows.codes[lane / RowExchange<kDim>::kLanes][j] = static_cast<uint8_t>(code);
  place(p.k_residual, p.k_residual_strides, row, row.head)[j] = static_cast<std::byte>(code);
}

// p_j = e4m3((U_j . E) / p_scale_j) by dot products as they are defined. x: E as
// RowExchange::load() gives it.
template <int kDim>
__device__ __forceinline__ void find_residual_exactly(const AppendParams& p, const AppendRow& row,
                                                      const float (&x)[kNvfp4BlockSize],
                                                      WarpRows<kDim>& rows, int lane) {
  constexpr int kLanes = RowExchange<kDim>::kLanes;
  const int in_row = lane % kLanes;
  const float* basis = residual_basis(p, row.stats_row, row.head);
  const float* scales = residual_scales(p, row);
  const int own = own_dot<kDim>(in_row);
  const int64_t stride = p.residual_basis_strides[2];
  // NOTE: not unrolled. A decode step runs through this code once, and its time is that of fetching
  // instructions.
#pragma unroll 1
  for (int j = 0; j < p.residual_rank; j += kDotsAtOnce, basis += kDotsAtOnce * stride) {
    const float p_scale = __ldg(scales + j + own);
    const float dot = four_dots<kDim>(x, basis, stride, kDotsAtOnce, in_row, p.stats_vectors);
    const uint32_t code = ptx::e4m3(__fdiv_rn(dot, p_scale));
    if (in_row % (kLanes / kDotsAtOnce) == 0) keep_code<kDim>(p, row, rows, lane, j + own, code);
  }
}

// One dot product of row r of the warp, whose E is in shared memory, by all of its lanes.
template <int kDim>
__device__ __forceinline__ float exact_dot(const RowExchange<kDim>& exchange, int r,
                                           const float* vector, int lane) {
  constexpr int kOwn = kDim / 32;
  float sums[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    sums[k] = __fmul_rn(__ldg(vector + lane + 32 * k), exchange.element(r, lane + 32 * k));
  }
#pragma unroll
  for (int half = kOwn / 2; half >= 1; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) sums[k] = __fadd_rn(sums[k], sums[k + half]);
  }
  float sum = sums[0];
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
  }
  return sum;
}

// As find_residual_exactly(), most of it by tensor core. All rows of the warp have the row of
// statistics that `basis` is of. E is in shared memory, too.
template <int kDim>
__device__ __forceinline__ void find_residual(const AppendParams& p, const AppendRow& row,
                                              const float (&error)[kNvfp4BlockSize],
                                              const BasisOperand<kDim>& basis, WarpRows<kDim>& rows,
                                              int lane) {
  using Operand = BasisOperand<kDim>;
  constexpr int kLanes = RowExchange<kDim>::kLanes;
  const SplitBlock block(error, kLanes);
  const float* scales = residual_scales(p, row);
#pragma unroll 1
  for (int tile = 0; tile * Operand::kColumns < p.residual_rank; ++tile) {
    const OwnDots<kDim> dots = rough_dots(block, basis, tile, lane);
#pragma unroll
    for (int i = 0; i < OwnDots<kDim>::kCount; ++i) {
      const int column = OwnDots<kDim>::column(lane, i);
      const int j = tile * Operand::kColumns + column;
      const bool exists = row.is_written && j < p.residual_rank;
      const float p_scale = j < p.residual_rank ? __ldg(scales + j) : 1.0f;
      RoughCode found =
          rough_code(dots.values[i], basis.norm_of(tile, column), block.norm, p_scale);
      unsigned left = __ballot_sync(~0u, exists && !found.is_sure);
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        const int owner_j = tile * Operand::kColumns + OwnDots<kDim>::column(owner, i);
        const uint32_t stats_row = __shfl_sync(~0u, row.stats_row, owner);
        const float dot = exact_dot(
            rows.exchange, owner / kLanes,
            residual_basis(p, stats_row, row.head) + owner_j * p.residual_basis_strides[2], lane);
        if (lane == owner) found.code = ptx::e4m3(__fdiv_rn(dot, p_scale));
      }
      if (exists) keep_code<kDim>(p, row, rows, lane, j, found.code);
    }
  }
}

// k_first = (Kc - K^) - U^T (p_scale p) of the rows that start a page, one after the other by all
// lanes. `left` has the bit of the first lane of each of them. E and p are in shared memory.
template <int kDim>
__device__ __forceinline__ void write_first_keys(const AppendParams& p, const AppendRow& row,
                                                 const WarpRows<kDim>& rows, unsigned left,
                                                 int lane) {
  constexpr int kLanes = RowExchange<kDim>::kLanes;
  constexpr int kOwn = kDim / 32;
#pragma unroll 1
  for (; left != 0; left &= left - 1) {
    const int owner = __ffs(static_cast<int>(left)) - 1;
    AppendRow first = row;
    first.token = 0;
    first.page = __shfl_sync(~0u, row.page, owner);
    first.stats_row = __shfl_sync(~0u, row.stats_row, owner);
    const float* basis = residual_basis(p, first.stats_row, first.head) + lane;
    const float* scales = residual_scales(p, first);
    float restored[kOwn] = {};
#pragma unroll 4
    for (int j = 0; j < p.residual_rank; ++j, basis += p.residual_basis_strides[2]) {
      const float value = e4m3_to_float({rows.codes[owner / kLanes][j]});
      const float part = __fmul_rn(__ldg(scales + j), value);
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        restored[k] = __fadd_rn(restored[k], __fmul_rn(__ldg(basis + 32 * k), part));
      }
    }
    std::byte* to = place(p.k_first, p.k_first_strides, first, first.head);
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const float error = rows.exchange.element(owner / kLanes, lane + 32 * k);
      store_bf16(to + 2 * (lane + 32 * k), __fsub_rn(error, restored[k]));
    }
  }
}

template <int kDim>
__device__ __forceinline__ void write_compensation(const AppendParams& p, const AppendRow& row,
                                                   KeyBlock& key,
                                                   CompensationShared<kDim>& shared) {
  constexpr int kLanes = RowExchange<kDim>::kLanes;
  const int lane = threadIdx.x % 32;
  WarpRows<kDim>& rows = shared.rows[threadIdx.x / 32];
  const bool starts_page = p.k_first != nullptr && row.is_written && row.token == 0;
  const unsigned first_keys = __ballot_sync(~0u, starts_page && lane % kLanes == 0);
  if (p.delta_s == nullptr && p.residual_rank == 0 && first_keys == 0) return;
  float error[kNvfp4BlockSize];
  find_error(key, error);
  float x[kNvfp4BlockSize];
  if (p.delta_s != nullptr) {
    rows.exchange.store(lane, key.centred);
    __syncwarp();
    rows.exchange.load(lane, x);
    __syncwarp();
    write_delta<kDim>(p, row, x, lane % kLanes);
  }
  if (p.residual_rank == 0 && first_keys == 0) return;
  rows.exchange.store(lane, error);
  __syncwarp();
  if (p.residual_rank > 0) {
    if (__all_sync(~0u, !row.is_written || row.stats_row == shared.basis_row)) {
      find_residual<kDim>(p, row, error, shared.basis, rows, lane);
    } else {
      rows.exchange.load(lane, x);
      find_residual_exactly<kDim>(p, row, x, rows, lane);
    }
  }
  __syncwarp();
  if (first_keys != 0) write_first_keys<kDim>(p, row, rows, first_keys, lane);
  __syncwarp();
}

// Has the vectors of delta_s fetched, so that reads from L2 are all that it waits for.
__device__ __forceinline__ void prefetch_q_mean(const AppendParams& p, uint32_t stats_row,
                                                uint32_t head) {
  constexpr int kLine = 32;  // floats
  const int lines = p.head_dim / kLine;
  const float* q_mean =
      p.q_mean + stats_row * p.q_mean_strides[0] + head * p.group_size * p.q_mean_strides[1];
  for (int i = threadIdx.x; i < p.group_size * lines; i += blockDim.x) {
    ptx::prefetch_l2(q_mean + i / lines * p.q_mean_strides[1] + i % lines * kLine);
  }
}

// Fills shared memory, with the basis of the row of statistics of `token`; a barrier must follow.
template <int kDim>
__device__ __forceinline__ void prepare_compensation(const AppendParams& p, int token,
                                                     uint32_t head,
                                                     CompensationShared<kDim>& shared) {
  SequenceCursor cursor = guess_sequence(p.sequences, token);
  const int stats_row = max(cursor.row_of(p.sequences, token), 0);
  if (threadIdx.x == 0) shared.basis_row = stats_row;
  if (p.residual_rank > 0) {
    shared.basis.fill(residual_basis(p, stats_row, head), p.residual_basis_strides[2],
                      p.residual_rank, p.stats_vectors);
  }
  if (p.delta_s != nullptr) prefetch_q_mean(p, stats_row, head);
}

}  // namespace mpfa::kernels
