// Runs kernels.ptx in GPGPU-Sim's functional mode: a host program as nvcc would make it, without
// nvcc. GPGPU-Sim finds the PTX through cuobjdump, for which run.sh puts a script in its place.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>

#include "problem.h"

extern "C" {
void** __cudaRegisterFatBinary(void* fat_binary);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, uint3* tid, uint3* bid, dim3* block, dim3* grid, int* size);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
}

namespace {

char arithmetic_key;
char product_key;

// The configuration is pushed as <<<>>> does it; GPGPU-Sim's cudaLaunchKernel relies on that.
double launch(const char* key, dim3 grid, dim3 block, void** params) {
  const auto start = std::chrono::steady_clock::now();
  __cudaPushCallConfiguration(grid, block, 0, nullptr);
  const cudaError_t launched = cudaLaunchKernel(key, grid, block, params, 0, nullptr);
  const cudaError_t done = cudaDeviceSynchronize();
  if (launched != cudaSuccess || done != cudaSuccess) std::printf("error %d %d\n", launched, done);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of three.
double run(const char* key, dim3 grid, dim3 block, void** params) {
  double best = launch(key, grid, block, params);
  for (int i = 0; i < 2; ++i) best = std::min(best, launch(key, grid, block, params));
  return best;
}

template <class T>
void* upload(const std::vector<T>& values) {
  void* address = nullptr;
  cudaMalloc(&address, values.size() * sizeof(T));
  cudaMemcpy(address, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return address;
}

template <class T>
std::vector<T> download(void* address, size_t count) {
  std::vector<T> values(count);
  cudaMemcpy(values.data(), address, count * sizeof(T), cudaMemcpyDeviceToHost);
  return values;
}

}  // namespace

int main() {
  void** handle = __cudaRegisterFatBinary(nullptr);
  char arithmetic[] = "arithmetic";
  char product[] = "product";
  __cudaRegisterFunction(handle, &arithmetic_key, arithmetic, arithmetic, -1, nullptr, nullptr,
                         nullptr, nullptr, nullptr);
  __cudaRegisterFunction(handle, &product_key, product, product, -1, nullptr, nullptr, nullptr,
                         nullptr, nullptr);

  uint32_t turns = peer::kTurns;
  const std::vector<uint32_t> zeros(size_t{peer::kArithmeticBlocks} * peer::kArithmeticThreads);
  void* out = upload(zeros);
  void* arithmetic_params[] = {&out, &turns};
  double seconds = run(&arithmetic_key, dim3(peer::kArithmeticBlocks),
                       dim3(peer::kArithmeticThreads), arithmetic_params);
  peer::report("gpgpu-sim", "arithmetic", peer::is_right(download<uint32_t>(out, zeros.size())),
               peer::kArithmeticInsns, seconds);

  const std::vector<float> a = peer::matrix(1);
  const std::vector<float> b = peer::matrix(2);
  void* device_a = upload(a);
  void* device_b = upload(b);
  void* device_c = upload(a);
  uint32_t size = peer::kSize;
  void* product_params[] = {&device_a, &device_b, &device_c, &size};
  const unsigned tiles = peer::kSize / peer::kTile;
  seconds = run(&product_key, dim3(tiles, tiles), dim3(peer::kTile, peer::kTile), product_params);
  peer::report("gpgpu-sim", "product", peer::is_right(a, b, download<float>(device_c, a.size())),
               peer::kProductInsns, seconds);
}
