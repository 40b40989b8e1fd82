#include "bench/empty_kernel.h"

namespace mpfa::tools {
namespace {

constexpr int kWarpSize = 32;

__global__ void empty_kernel() {}

}  // namespace

cudaError_t launch_empty_kernel(cudaStream_t stream) {
  empty_kernel<<<1, kWarpSize, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace mpfa::tools
