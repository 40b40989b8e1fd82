#include <algorithm>

#include "kernels/any/append/input.cuh"
#include "kernels/any/merge_states/merge_states.h"
#include "kernels/ptx/convert.cuh"

namespace mpfa::kernels {
namespace {

constexpr int kWarps = 4;                   // of a CTA
constexpr int kAhead = 4;                   // parts whose values are read at the same time
constexpr float kLeast = 1.401298464e-45f;  // above 0

// The parts lie in the launch's parameters, of which a usual merge has few.
template <int kMaxParts>
struct PartTable {
  MergeState parts[kMaxParts];
};
constexpr int kFewParts = 16;
static_assert(sizeof(MergeParams) + sizeof(PartTable<kMaxMergeParts>) <= 32764);

// kWidth consecutive values as they lie in memory. Read by plain loads: the result may lie there.
template <int kWidth>
struct Piece {
  uint32_t words[kWidth] = {};

  __device__ __forceinline__ void load(const std::byte* from, InputType type) {
    if constexpr (kWidth == 1) {
      words[0] = type == InputType::kFp32 ? *reinterpret_cast<const uint32_t*>(from)
                                          : *reinterpret_cast<const uint16_t*>(from);
    } else {
      static_assert(kWidth == 4);
      if (type == InputType::kFp32) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
      } else {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        words[0] = two.x, words[1] = two.y;
      }
    }
  }

  __device__ __forceinline__ float value(InputType type, int i) const {
    if (type == InputType::kFp32) return input_element<InputType::kFp32>(words, i);
    return type == InputType::kBf16 ? input_element<InputType::kBf16>(words, i)
                                    : input_element<InputType::kFp16>(words, i);
  }
};

template <int kWidth>
__device__ __forceinline__ void store(std::byte* to, InputType type, const float (&x)[kWidth]) {
  if (type == InputType::kFp32) {
    if constexpr (kWidth == 1) {
      *reinterpret_cast<float*>(to) = x[0];
    } else {
      *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
    }
    return;
  }
  const auto pair = [&](float low, float high) {
    return type == InputType::kBf16 ? ptx::bf16x2(low, high) : ptx::f16x2(low, high);
  };
  if constexpr (kWidth == 1) {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(pair(x[0], 0.0f));
  } else {
    *reinterpret_cast<uint2*>(to) = make_uint2(pair(x[0], x[1]), pair(x[2], x[3]));
  }
}

__device__ __forceinline__ float load_lse(const MergeState& state, int64_t row, int64_t head) {
  return state.lse[row * state.lse_strides[0] + head * state.lse_strides[1]];
}

// exp(lse - maximum). 0 for -inf and for what is 0 in FP64, as the CPU has it: whatever such a part
// holds counts for nothing. What only FP32 has no number for stays above 0, so that an infinity or
// NaN shows there.
__device__ __forceinline__ float weight_of(float lse, float maximum) {
  constexpr float kLeastExponent = -745.13f;
  if (lse == -INFINITY) return 0.0f;
  if (lse == maximum) return 1.0f;
  const float exponent = lse - maximum;
  const float weight = expf(exponent);
  return exponent >= kLeastExponent ? fmaxf(weight, kLeast) : weight;
}

// What a row and head have of each part, the same in all lanes.
struct RowWeights {
  float maximum = -INFINITY;
  float sum = 0.0f;  // of weight_of() all parts
};

// All lanes of the warp take part, here and below.
template <class Table>
__device__ __forceinline__ RowWeights find_weights(const Table& table, int num_parts, int64_t row,
                                                   int64_t head, int lane) {
  RowWeights w;
  for (int part = lane; part < num_parts; part += 32) {
    w.maximum = fmaxf(w.maximum, load_lse(table.parts[part], row, head));
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    w.maximum = fmaxf(w.maximum, __shfl_xor_sync(~0u, w.maximum, step));
  }
  for (int part = lane; part < num_parts; part += 32) {
    w.sum += weight_of(load_lse(table.parts[part], row, head), w.maximum);
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) w.sum += __shfl_xor_sync(~0u, w.sum, step);
  return w;
}

// Adds what up to 32 parts, from `first` on, have in a lane's columns. weight: of part first + lane
// in the result; 0 past the last.
template <int kWidth, class Table>
__device__ __forceinline__ void add_parts(const Table& table, int first, int count, float weight,
                                          int64_t row, int64_t head, int column, bool is_inside,
                                          float (&sums)[kWidth]) {
#pragma unroll 1
  for (int i = 0; i < count; i += kAhead) {
    Piece<kWidth> pieces[kAhead];
    float weights[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      weights[k] = __shfl_sync(~0u, weight, i + k);
      if (weights[k] == 0.0f || !is_inside) continue;
      const MergeState& part = table.parts[first + i + k];
      const int item = part.type == InputType::kFp32 ? 4 : 2;
      pieces[k].load(part.out + row * part.out_strides[0] + head * part.out_strides[1] +
                         int64_t{column} * item,
                     part.type);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (weights[k] == 0.0f) continue;
      const InputType type = table.parts[first + i + k].type;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        sums[j] = fmaf(weights[k], pieces[k].value(type, j), sums[j]);
      }
    }
  }
}

// A warp has a row and head, a lane kWidth columns of it at a time. So nobody but the lane that has
// read a value can write over it, and a logarithm is written when its warp has no more use for it.
template <int kWidth, class Table>
__global__ void __launch_bounds__(32 * kWarps, 8)
    merge_states_kernel(const __grid_constant__ MergeParams p,
                        const __grid_constant__ Table table) {
  const int lane = threadIdx.x % 32;
  const uint32_t index = blockIdx.x * kWarps + threadIdx.x / 32;
  if (index >= static_cast<uint32_t>(p.rows) * p.heads) return;
  const int64_t row = index / p.heads;
  const int64_t head = index % p.heads;
  const RowWeights w = find_weights(table, p.num_parts, row, head, lane);
  const float inverse = 1.0f / w.sum;  // exactly 1 where one state counts
  std::byte* out = p.result.out + row * p.result.out_strides[0] + head * p.result.out_strides[1];
  const int item = p.result.type == InputType::kFp32 ? 4 : 2;
#pragma unroll 1
  for (int begin = 0; begin < p.head_dim; begin += 32 * kWidth) {
    const int column = begin + lane * kWidth;
    float sums[kWidth] = {};
#pragma unroll 1
    for (int first = 0; first < p.num_parts; first += 32) {
      float weight = 0.0f;
      if (first + lane < p.num_parts) {
        weight = weight_of(load_lse(table.parts[first + lane], row, head), w.maximum);
        if (weight > 0.0f) weight = fmaxf(weight * inverse, kLeast);
      }
      add_parts(table, first, min(32, p.num_parts - first), weight, row, head, column,
                column < p.head_dim, sums);
    }
    if (column < p.head_dim) store(out + int64_t{column} * item, p.result.type, sums);
  }
  __syncwarp();
  if (p.result.lse != nullptr && lane == 0) {
    p.result.lse[row * p.result.lse_strides[0] + head * p.result.lse_strides[1]] =
        w.sum == 0.0f ? -INFINITY : w.maximum + logf(w.sum);
  }
}

// Whether four values at a time can be read or written.
bool has_vectors(const MergeState& state) {
  const int64_t bytes = state.type == InputType::kFp32 ? 16 : 8;
  return reinterpret_cast<uintptr_t>(state.out) % static_cast<uintptr_t>(bytes) == 0 &&
         state.out_strides[0] % bytes == 0 && state.out_strides[1] % bytes == 0;
}

template <int kMaxParts>
cudaError_t launch_for(const MergeParams& p, std::span<const MergeState> parts,
                       cudaStream_t stream) {
  PartTable<kMaxParts> table;
  std::copy(parts.begin(), parts.end(), table.parts);
  const bool vectors = p.head_dim % 4 == 0 && has_vectors(p.result) &&
                       std::all_of(parts.begin(), parts.end(), has_vectors);
  const auto kernel = vectors ? merge_states_kernel<4, PartTable<kMaxParts>>
                              : merge_states_kernel<1, PartTable<kMaxParts>>;
  const int64_t ctas = (int64_t{p.rows} * p.heads + kWarps - 1) / kWarps;
  kernel<<<static_cast<unsigned>(ctas), 32 * kWarps, 0, stream>>>(p, table);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_merge_states(const MergeParams& params, std::span<const MergeState> parts,
                                cudaStream_t stream) {
  if (params.rows < 0 || params.heads < 0 || params.head_dim < 0 ||
      params.head_dim > kMaxMergeDim || int64_t{params.rows} * params.heads > kMaxMergeRows ||
      parts.empty() || parts.size() > static_cast<size_t>(kMaxMergeParts)) {
    return cudaErrorInvalidValue;
  }
  if (params.rows == 0 || params.heads == 0) return cudaSuccess;
  MergeParams p = params;
  p.num_parts = static_cast<int32_t>(parts.size());
  return parts.size() <= static_cast<size_t>(kFewParts)
             ? launch_for<kFewParts>(p, parts, stream)
             : launch_for<kMaxMergeParts>(p, parts, stream);
}

}  // namespace mpfa::kernels
