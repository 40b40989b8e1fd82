#include "kernels/any/append/input.cuh"
#include "kernels/any/means/means.h"
#include "kernels/ptx/convert.cuh"

namespace mpfa::kernels {
namespace {

constexpr int kColumns = 16;  // of a CTA: a sector of 16-bit values

// A thread's part of a token: kWidth consecutive values.
template <InputType kType, int kWidth>
struct Piece {
  static constexpr int kBytes = kType == InputType::kFp32 ? 4 : 2;
  static constexpr int kWords = kWidth == 1 ? 1 : kWidth * kBytes / 4;
  uint32_t words[kWords];

  __device__ __forceinline__ void load(const std::byte* from) {
    if constexpr (kWidth == 1) {  // of any alignment
      words[0] = 0;
#pragma unroll
      for (int i = 0; i < kBytes; ++i) {
        words[0] |= static_cast<uint32_t>(__ldg(reinterpret_cast<const uint8_t*>(from) + i))
                    << (8 * i);
      }
    } else {
      static_assert(kWords == 4);
      const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
      words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    }
  }

  __device__ __forceinline__ float operator[](int i) const {
    return input_element<kType>(words, i);
  }
};

// A CTA has kColumns columns of one head and sequence. Its threads take tokens in turn, each adding
// its own; then their sums are added as a tree.
template <InputType kType, int kWidth, int kThreads>
__global__ void __launch_bounds__(kThreads)
    means_kernel(const __grid_constant__ MeansParams p, int column_blocks) {
  constexpr int kAcross = kColumns / kWidth;  // threads of a token
  constexpr int kTokens = kThreads / kAcross;
  constexpr int kAhead = 4;  // reads in flight
  using Part = Piece<kType, kWidth>;
  __shared__ double sums[kThreads / 32][kColumns];

  const int block = blockIdx.x % column_blocks;
  const int head = blockIdx.x / column_blocks % p.num_heads;
  const int sequence = blockIdx.x / column_blocks / p.num_heads;
  int64_t begin = 0;
  int64_t end = p.num_tokens;
  if (p.cu_seqlens != nullptr) {
    const int32_t* cu = p.cu_seqlens + sequence * p.cu_seqlens_stride;
    begin = min(max(int64_t{__ldg(cu)}, int64_t{0}), p.num_tokens);
    end = min(max(int64_t{__ldg(cu + p.cu_seqlens_stride)}, begin), p.num_tokens);
  }
  const int column = block * kColumns + threadIdx.x % kAcross * kWidth;
  double sum[kWidth] = {};
  if (column < p.head_dim) {
    const std::byte* from = p.x + head * p.x_head_stride + int64_t{column} * Part::kBytes;
    int64_t token = begin + threadIdx.x / kAcross;
    const auto add = [&](const Part& part) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += static_cast<double>(part[i]);
    };
    for (; token + (kAhead - 1) * kTokens < end; token += kAhead * kTokens) {
      Part parts[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        parts[i].load(from + (token + i * kTokens) * p.x_token_stride);
      }
#pragma unroll
      for (const Part& part : parts) add(part);
    }
#pragma unroll 2
    for (; token < end; token += kTokens) {
      Part part;
      part.load(from + token * p.x_token_stride);
      add(part);
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
#pragma unroll
    for (int step = 16; step >= kAcross; step /= 2) {
      sum[i] += __shfl_xor_sync(~0u, sum[i], step);
    }
  }
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (lane < kAcross) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[warp][lane * kWidth + i] = sum[i];
  }
  __syncthreads();
  const int own = block * kColumns + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= kColumns || own >= p.head_dim) return;
  double total = sums[0][threadIdx.x];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) total += sums[i][threadIdx.x];
  const double count = static_cast<double>(max(end - begin, int64_t{1}));
  p.out[sequence * p.out_strides[0] + head * p.out_strides[1] + own] =
      static_cast<float>(total / count);
}

template <InputType kType, int kWidth>
cudaError_t launch_as(const MeansParams& p, cudaStream_t stream) {
  const int column_blocks = (p.head_dim + kColumns - 1) / kColumns;
  const int64_t ctas = int64_t{column_blocks} * p.num_heads * p.batch_size;
  if (ctas > INT32_MAX) return cudaErrorInvalidValue;
  // Short sequences would leave most threads of a large CTA idle.
  constexpr int64_t kLongSequence = 512;
  const bool is_long = p.num_tokens / p.batch_size >= kLongSequence;
  const auto kernel =
      is_long ? means_kernel<kType, kWidth, 1024> : means_kernel<kType, kWidth, 128>;
  kernel<<<static_cast<unsigned>(ctas), is_long ? 1024 : 128, 0, stream>>>(p, column_blocks);
  return cudaGetLastError();
}

template <InputType kType>
cudaError_t launch_for(const MeansParams& p, cudaStream_t stream) {
  constexpr int kWidth = kType == InputType::kFp32 ? 4 : 8;
  const bool has_vectors = p.head_dim % kWidth == 0 && reinterpret_cast<uintptr_t>(p.x) % 16 == 0 &&
                           p.x_token_stride % 16 == 0 && p.x_head_stride % 16 == 0;
  return has_vectors ? launch_as<kType, kWidth>(p, stream) : launch_as<kType, 1>(p, stream);
}

}  // namespace

cudaError_t launch_means(const MeansParams& p, cudaStream_t stream) {
  if (p.num_tokens < 0 || p.batch_size < 0 || p.num_heads < 0 || p.head_dim < 0) {
    return cudaErrorInvalidValue;
  }
  if (p.batch_size == 0 || p.num_heads == 0 || p.head_dim == 0) return cudaSuccess;
  return launch_for_type(p.type, [&]<InputType kType>() { return launch_for<kType>(p, stream); });
}

}  // namespace mpfa::kernels
