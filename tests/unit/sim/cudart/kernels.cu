#include <cooperative_groups.h>

#include "kernels.h"

__constant__ int constant_value;
__device__ int global_values[8];
__managed__ int managed_value = 5;

__global__ void add(const float* a, float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] += a[i];
}

__global__ void write_block_index(int* out) {
  if (out != nullptr) out[blockIdx.x] = blockIdx.x;
}

__global__ void __launch_bounds__(128) bounded(int* out) {
  if (out != nullptr) out[threadIdx.x] = 1;
}

__global__ void __cluster_dims__(2, 1, 1) clustered(int* out) {
  if (out != nullptr) out[blockIdx.x] = cooperative_groups::this_cluster().num_blocks();
}

__global__ void with_static_shared(int* out) {
  __shared__ int values[1024];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (out != nullptr) out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

__global__ void with_dynamic_shared(int* out) {
  extern __shared__ int dynamic[];
  unsigned bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  int sum = 0;
  for (unsigned i = 0; i < bytes / 4; ++i) dynamic[i] = i;
  for (unsigned i = 0; i < bytes / 4; ++i) sum += dynamic[i] & 7;
  if (out != nullptr) *out = sum;
}

__global__ void add_params(int* out, char c, double d, int3 v) {
  *out = c + static_cast<int>(d) + v.x + v.y + v.z;
}

__global__ void use_variables(int* out) {
  *out = constant_value + global_values[3] + managed_value;
}

__global__ void cluster_size(int* out) {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  if (out != nullptr) *out = blocks;
}

__global__ void sum_after_grid_sync(const int* in, int* scratch, int* out, int rounds) {
  const auto grid = cooperative_groups::this_grid();
  const unsigned block = blockIdx.x;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) scratch[block] = in[block] + round;
    grid.sync();
    int sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += scratch[i];
    atomicAdd(&out[block], sum);
    grid.sync();
  }
}

__global__ void set_conditional_to(cudaGraphConditionalHandle handle, const int* value) {
  cudaGraphSetConditional(handle, *value);
}

__global__ void count_down(int* counter, int step, cudaGraphConditionalHandle handle) {
  *counter -= step;
  cudaGraphSetConditional(handle, *counter > 0);
}

__global__ void store_at(int* address) { *address = 3; }

__global__ void trap() { asm volatile("trap;"); }

void launch_add(dim3 grid, dim3 block, size_t shared, cudaStream_t stream, const float* a, float* b,
                int n) {
  add<<<grid, block, shared, stream>>>(a, b, n);
}

void launch_clustered(dim3 grid, int* out) { clustered<<<grid, 32>>>(out); }

const void* constant_value_symbol() { return &constant_value; }
const void* global_values_symbol() { return &global_values; }
int& managed_value_on_host() { return managed_value; }
const void* managed_value_symbol() { return &managed_value; }
