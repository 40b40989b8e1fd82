// Kernels and device variables of the tests, which nvcc compiles (kernels.cu). Here a kernel's name
// is its host stub's.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __CUDACC__
#define KERNEL __global__ void
#else
#define KERNEL void
#endif

KERNEL add(const float* a, float* b, int n);            // b += a
KERNEL write_block_index(int* out);                     // out[block] = block
KERNEL bounded(int* out);                               // __launch_bounds__(128)
KERNEL clustered(int* out);                             // __cluster_dims__(2)
KERNEL with_static_shared(int* out);                    // 4096 bytes
KERNEL with_dynamic_shared(int* out);                   // sums what it wrote to all of it
KERNEL add_params(int* out, char c, double d, int3 v);  // out[0] = c + d + v.x + v.y + v.z
KERNEL use_variables(int* out);                         // out[0] = constant + global[3] + managed
KERNEL cluster_size(int* out);                          // out[0] = blocks of the cluster
// Each block adds to its out[] the sum over all blocks' in[block] + round, of each round. The
// blocks wait for each other with grid_group::sync().
KERNEL sum_after_grid_sync(const int* in, int* scratch, int* out, int rounds);
KERNEL set_conditional_to(cudaGraphConditionalHandle handle, const int* value);
// *counter -= step; the conditional is whether something is left.
KERNEL count_down(int* counter, int step, cudaGraphConditionalHandle handle);
KERNEL store_at(int* address);  // *address = 3, whatever that is
KERNEL trap();

// Through <<<>>>.
void launch_add(dim3 grid, dim3 block, size_t shared, cudaStream_t stream, const float* a, float* b,
                int n);
void launch_clustered(dim3 grid, int* out);

// Shadows of __constant__ int constant_value; __device__ int global_values[8];
const void* constant_value_symbol();
const void* global_values_symbol();
// __managed__ int managed_value, by reference and as symbol.
int& managed_value_on_host();
const void* managed_value_symbol();
