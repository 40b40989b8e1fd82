// Templates of the toolkit's libraries, instantiated for nvcc to say which instructions they
// become: wmma, cuda::atomic, cuda::barrier and pipeline, cooperative groups, CUB's block
// primitives; and what the language itself needs (printf, assert, alloca, virtual calls, 128-bit
// integers). Nothing here is run.
#include <alloca.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <curand_kernel.h>
#include <mma.h>

#include <cassert>
#include <cstdio>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
namespace wmma = nvcuda::wmma;

// ---- wmma ----
template <int M, int N, int K, class Element, class Sum, class ALayout, class BLayout, class Out>
__device__ void wmma_product(const Out* a, const Out* b, Sum* c, unsigned stride) {
  wmma::fragment<wmma::matrix_a, M, N, K, Element, ALayout> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, Element, BLayout> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> fc;
  wmma::load_matrix_sync(fa, a, stride);
  wmma::load_matrix_sync(fb, b, stride);
  wmma::load_matrix_sync(fc, c, stride, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, stride, wmma::mem_col_major);
  wmma::fill_fragment(fc, Sum(1));
  wmma::load_matrix_sync(fc, c, stride, wmma::mem_col_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, stride, wmma::mem_row_major);
}
template <int M, int N, int K, class Element, class Sum, class Out>
__device__ void wmma_layouts(const Out* a, Sum* c, unsigned stride) {
  wmma_product<M, N, K, Element, Sum, wmma::row_major, wmma::col_major>(a, a, c, stride);
  wmma_product<M, N, K, Element, Sum, wmma::row_major, wmma::row_major>(a, a, c, stride);
  wmma_product<M, N, K, Element, Sum, wmma::col_major, wmma::col_major>(a, a, c, stride);
  wmma_product<M, N, K, Element, Sum, wmma::col_major, wmma::row_major>(a, a, c, stride);
}
template <class Element, class Sum>
__global__ void wmma_16(const Element* a, Sum* c, unsigned stride) {
  wmma_layouts<16, 16, 16, Element, Sum>(a, c, stride);
  wmma_layouts<8, 32, 16, Element, Sum>(a, c, stride);
  wmma_layouts<32, 8, 16, Element, Sum>(a, c, stride);
}
template __global__ void wmma_16(const __half*, __half*, unsigned);
template __global__ void wmma_16(const __half*, float*, unsigned);
template __global__ void wmma_16(const __nv_bfloat16*, float*, unsigned);
template __global__ void wmma_16(const signed char*, int*, unsigned);
template __global__ void wmma_16(const unsigned char*, int*, unsigned);
__global__ void wmma_other(const float* tf32, const double* f64, const int* i, float* c, double* d,
                           int* s) {
  wmma_layouts<16, 16, 8, wmma::precision::tf32, float>(tf32, c, 16);
  wmma_layouts<8, 8, 4, double, double>(f64, d, 8);
  wmma_product<8, 8, 32, wmma::experimental::precision::s4, int, wmma::row_major, wmma::col_major>(
      i, i, s, 32);
  wmma_product<8, 8, 32, wmma::experimental::precision::u4, int, wmma::row_major, wmma::col_major>(
      i, i, s, 32);
  wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> sum;
  wmma::load_matrix_sync(a, i, 128);
  wmma::load_matrix_sync(b, i, 128);
  wmma::fill_fragment(sum, 0);
  wmma::bmma_sync(sum, a, b, sum, wmma::experimental::bmmaBitOpXOR);
  wmma::bmma_sync(sum, a, b, sum, wmma::experimental::bmmaBitOpAND);
  wmma::store_matrix_sync(s, sum, 8, wmma::mem_row_major);
}

// ---- cuda::atomic ----
template <class T, cuda::thread_scope kScope>
__device__ void atomic_orders(T* at, T value, cuda::std::memory_order order) {
  cuda::atomic_ref<T, kScope> ref(*at);
  ref.store(value, order);
  value = ref.load(order) + ref.exchange(value, order);
  ref.compare_exchange_strong(value, T(1), order);
  ref.compare_exchange_weak(value, T(2), order);
  *at = value;
  value = ref.fetch_add(value, order) + ref.fetch_sub(value, order);
  value += ref.fetch_max(value, order) + ref.fetch_min(value, order);
  if constexpr (cuda::std::is_integral_v<T>) {
    value += ref.fetch_and(value, order) | ref.fetch_or(value, order) ^ ref.fetch_xor(value, order);
    if (value == T(3)) ref.wait(value, order);
    ref.notify_all();
  }
  *at = value;
}
template <class T, cuda::thread_scope kScope>
__device__ void atomic_scope(T* at, T value) {
  atomic_orders<T, kScope>(at, value, cuda::std::memory_order_relaxed);
  atomic_orders<T, kScope>(at, value, cuda::std::memory_order_acquire);
  atomic_orders<T, kScope>(at, value, cuda::std::memory_order_release);
  atomic_orders<T, kScope>(at, value, cuda::std::memory_order_acq_rel);
  atomic_orders<T, kScope>(at, value, cuda::std::memory_order_seq_cst);
}
template <class T>
__global__ void atomics(T* at, T value) {
  atomic_scope<T, cuda::thread_scope_block>(at, value);
  atomic_scope<T, cuda::thread_scope_device>(at, value);
  atomic_scope<T, cuda::thread_scope_system>(at, value);
  __shared__ T shared;
  atomic_scope<T, cuda::thread_scope_block>(&shared, value);
  at[1] = shared;
}
template __global__ void atomics(int*, int);
template __global__ void atomics(unsigned*, unsigned);
template __global__ void atomics(long long*, long long);
template __global__ void atomics(unsigned long long*, unsigned long long);
template __global__ void atomics(float*, float);
template __global__ void atomics(double*, double);
template __global__ void atomics(short*, short);
template __global__ void atomics(unsigned char*, unsigned char);

__global__ void fences() {
  cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_system);
  cuda::atomic_thread_fence(cuda::std::memory_order_acq_rel, cuda::thread_scope_device);
  cuda::atomic_thread_fence(cuda::std::memory_order_acquire, cuda::thread_scope_block);
  __threadfence();
  __threadfence_block();
  __threadfence_system();
}

__global__ void atomics_of_halves(__half* h, __half2* h2, __nv_bfloat16* b, __nv_bfloat162* b2,
                                  float2* f2, float4* f4, unsigned short* u) {
  h[1] = atomicAdd(h, __half(1.0f));
  h2[1] = atomicAdd(h2, __half2(1.0f, 2.0f));
  b[1] = atomicAdd(b, __nv_bfloat16(1.0f));
  b2[1] = atomicAdd(b2, __nv_bfloat162(1.0f, 2.0f));
  u[1] = atomicCAS(u, static_cast<unsigned short>(1), static_cast<unsigned short>(2));
#if __CUDA_ARCH__ >= 900
  f2[1] = atomicAdd(f2, float2{1, 2});
  f4[1] = atomicAdd(f4, float4{1, 2, 3, 4});
#endif
}

// ---- barriers, pipelines, cooperative groups ----
__global__ void barriers(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int buffer[1024];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(cg::this_thread_block(), buffer, in, cuda::aligned_size_t<16>(4096), barrier);
  barrier.wait(barrier.arrive(1));
  barrier.arrive_and_wait();
  cuda::memcpy_async(buffer + threadIdx.x, in + threadIdx.x, cuda::aligned_size_t<4>(4), barrier);
  barrier.wait_parity(true);
  if (barrier.try_wait_for(barrier.arrive(), cuda::std::chrono::nanoseconds(100))) out[1] = 1;
  barrier.arrive_and_drop();
#if __CUDA_ARCH__ >= 900
  cuda::device::memcpy_async_tx(buffer, in, cuda::aligned_size_t<16>(1024), barrier);
  auto token = cuda::device::barrier_arrive_tx(barrier, 1, 1024);
  barrier.wait(cuda::std::move(token));
  cuda::device::barrier_expect_tx(barrier, 16);
#endif
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state);
  pipe.producer_acquire();
  cuda::memcpy_async(cg::this_thread_block(), buffer, in, sizeof(int) * 64, pipe);
  pipe.producer_commit();
  pipe.consumer_wait();
  out[threadIdx.x] = buffer[threadIdx.x];
  pipe.consumer_release();
  auto own = cuda::make_pipeline();
  own.producer_acquire();
  cuda::memcpy_async(buffer, in, cuda::aligned_size_t<16>(16), own);
  own.producer_commit();
  cuda::pipeline_consumer_wait_prior<0>(own);
}

template <int kSize>
__device__ int tile_work(cg::thread_block block, int value) {
  auto tile = cg::tiled_partition<kSize>(block);
  value += tile.shfl(value, 1) + tile.shfl_up(value, 1) + tile.shfl_down(value, 1);
  value += tile.shfl_xor(value, 1) + tile.any(value) + tile.all(value) + tile.ballot(value);
  value += tile.match_any(value) + cg::reduce(tile, value, cg::plus<int>());
  value += cg::reduce(tile, value, cg::less<int>()) + cg::reduce(tile, value, cg::bit_xor<int>());
  value += cg::inclusive_scan(tile, value) + cg::exclusive_scan(tile, value, cg::greater<int>());
  value += static_cast<int>(cg::reduce(tile, static_cast<float>(value), cg::plus<float>()));
  tile.sync();
  return value + tile.meta_group_rank();
}
__global__ void groups(int* out, const int* in) {
  cg::thread_block block = cg::this_thread_block();
  int value = in[block.thread_rank()];
  value += tile_work<1>(block, value) + tile_work<4>(block, value) + tile_work<32>(block, value);
  cg::coalesced_group active = cg::coalesced_threads();
  value += active.shfl(value, 0) + active.shfl_up(value, 1) + active.match_all(value, out[2]);
  value += cg::reduce(active, value, cg::plus<int>()) + active.num_threads();
  auto labels = cg::labeled_partition(active, value);
  auto halves = cg::binary_partition(active, value > 0);
  value += labels.size() + halves.thread_rank();
  value += cg::invoke_one_broadcast(active, [&] { return out[0]; });
  cg::thread_group part = cg::tiled_partition(block, 16);
  part.sync();
  __shared__ int buffer[256];
  cg::memcpy_async(block, buffer, in, sizeof(buffer));
  cg::wait(block);
  cg::wait_prior<1>(block);
  block.barrier_wait(block.barrier_arrive());
  cg::this_grid().sync();
#if __CUDA_ARCH__ >= 900
  cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  cluster.barrier_wait(cluster.barrier_arrive());
  value += *cluster.map_shared_rank(buffer, 1) + cluster.query_shared_rank(buffer);
  value += cluster.num_blocks() + cluster.dim_threads().x;
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  out[block.thread_rank()] = value + buffer[0];
}

// ---- CUB, curand ----
template <class T>
__global__ void block_primitives(T* data) {
  using Sort = cub::BlockRadixSort<T, 128, 4>;
  using Scan = cub::BlockScan<T, 128>;
  using Sum = cub::BlockReduce<T, 128>;
  using WarpScan = cub::WarpScan<T>;
  using WarpSum = cub::WarpReduce<T>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
    typename Sum::TempStorage sum;
    typename WarpScan::TempStorage warp_scan;
    typename WarpSum::TempStorage warp_sum;
  } shared;
  T items[4] = {data[0], data[1], data[2], data[3]};
  Sort(shared.sort).Sort(items);
  __syncthreads();
  Scan(shared.scan).InclusiveSum(items, items);
  __syncthreads();
  T total = Sum(shared.sum).Sum(items);
  WarpScan(shared.warp_scan).ExclusiveSum(total, items[0]);
  data[threadIdx.x] = WarpSum(shared.warp_sum).Sum(total) + items[0] + items[3];
}
template __global__ void block_primitives(int*);
template __global__ void block_primitives(float*);
template __global__ void block_primitives(unsigned long long*);

__global__ void random_numbers(curandStateXORWOW_t* a, curandStatePhilox4_32_10_t* b, float4* out) {
  curand_init(1, threadIdx.x, 0, a);
  curand_init(1, threadIdx.x, 0, b);
  out[0] = curand_normal4(b);
  out[1].x = curand_uniform(a) + curand_log_normal(a, 0, 1) + curand_poisson(a, 3.0);
}

// ---- the language ----
struct Shape {
  __device__ virtual float area() const = 0;
};
struct Square : Shape {
  __device__ explicit Square(float side) : side_(side) {}
  __device__ float area() const override { return side_ * side_; }
  float side_;
};
__constant__ int table[64];
__device__ int (*functions[2])(int);
__device__ __noinline__ int depth(int n) { return n < 2 ? n : depth(n - 1) + depth(n - 2); }

__global__ __launch_bounds__(128, 2) void language(int* out, int n, __int128* wide,
                                                   void** pointers) {
  extern __shared__ int dynamic[];
  int local[32];
  for (int i = 0; i < 32; ++i) local[i] = n * i;
  int* more = static_cast<int*>(alloca(n * sizeof(int)));
  more[n - 1] = local[n & 31];
  dynamic[n] = more[n / 2] + table[n & 63];
  wide[0] = wide[1] * wide[2] + wide[3] / wide[4] - (wide[5] << n) % wide[6];
  pointers[0] = malloc(n);
  free(pointers[1]);
  Square square(n);
  Shape* shape = n > 3 ? &square : static_cast<Shape*>(pointers[2]);
  memcpy(pointers[3], pointers[4], n);
  memset(pointers[3], 1, n);
  assert(n > 0);
  printf("%d %s %f\n", n, "text", 2.0 * n);
  switch (n) {
    case 0:
      out[3] = 5;
      break;
    case 1:
      out[7] = 2;
      break;
    case 2:
      out[1] = 9;
      break;
    case 3:
      out[4] = 4;
      break;
    case 4:
      out[9] = 8;
      break;
    case 5:
      out[2] = 1;
      break;
    case 6:
      out[6] = 3;
      break;
    case 7:
      out[8] = 6;
      break;
    default:
      __trap();
  }
  out[n] = dynamic[0] + depth(n) + functions[n & 1](n) + static_cast<int>(shape->area());
  cuda::annotated_ptr<int, cuda::access_property::persisting> hot(out);
  hot[1] = hot[2];
  cuda::apply_access_property(out, 128, cuda::access_property::persisting{});
  cuda::discard_memory(out, 256);
  asm volatile("brkpt;");
}
