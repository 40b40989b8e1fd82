// A program without kernels, for simrun to run.
#include <cuda_runtime.h>

#include <cstdio>

int main() {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return 1;
  std::printf("%s\n", properties.name);
  return 42;
}
