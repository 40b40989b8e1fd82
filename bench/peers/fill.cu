#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "peer.h"

namespace mpfa::peers {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2048;

// SplitMix64's mixing; the sum of four of its parts is bell-shaped, with variance 1.
__device__ float normal(uint64_t index) {
  uint64_t bits = index * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int16_t>(bits >> (16 * i));
  return static_cast<float>(sum) * (0.8660254f / 32768.0f);
}

template <typename T>
__global__ void fill_kernel(T* data, size_t elements, uint64_t seed) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += step) {
    data[i] = T(normal((seed << 40) + i));
  }
}

}  // namespace

cudaError_t fill_random(void* data, size_t elements, bool is_e4m3, uint64_t seed,
                        cudaStream_t stream) {
  if (is_e4m3) {
    fill_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_fp8_e4m3*>(data), elements,
                                                  seed);
  } else {
    fill_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), elements,
                                                  seed);
  }
  return cudaGetLastError();
}

}  // namespace mpfa::peers
