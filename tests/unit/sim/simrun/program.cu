// A program for the tests of simrun: says what it was given and what it computed.
#include <cstdio>

__global__ void sum(int* out) { atomicAdd(out, threadIdx.x); }

int main(int argc, char** argv) {
  cudaDeviceProp prop{};
  if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess) return 1;
  int* device = nullptr;
  if (cudaMalloc(&device, sizeof(int)) != cudaSuccess) return 2;
  if (cudaMemset(device, 0, sizeof(int)) != cudaSuccess) return 3;
  sum<<<1, 32>>>(device);
  int host = 0;
  if (cudaMemcpy(&host, device, sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess) return 4;
  printf("%s: %d arguments, last %s; sum %d\n", prop.name, argc, argv[argc - 1], host);
  return 41;
}
