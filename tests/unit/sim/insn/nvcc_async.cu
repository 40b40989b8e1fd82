// Asynchronous copies and barriers as CCCL has them. Compiled for sm_80 and for sm_90a.
#include <cooperative_groups.h>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>

#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>

// CCCL's own way of writing barriers in shared memory.
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int kTile = 128;  // elements, and threads

// out[i] = 3 * in[i] + in[mirrored in its tile], through three stages.
extern "C" __global__ void pipeline_copy(const int* in, int* out, int tiles) {
  constexpr int kStages = 3;
  __shared__ alignas(16) int buffer[kStages][kTile];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  int next = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    for (; next < tiles && next < tile + kStages; ++next) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, buffer[next % kStages], in + next * kTile,
                         cuda::aligned_size_t<16>(sizeof(int) * kTile), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    const int* from = buffer[tile % kStages];
    const int me = threadIdx.x;
    out[tile * kTile + me] = 3 * from[me] + from[kTile - 1 - me];
    pipeline.consumer_release();
  }
}

// Half of the threads copy, the other half compute.
extern "C" __global__ void partitioned_pipeline(const int* in, int* out, int tiles) {
  constexpr int kStages = 2;
  constexpr int kHalf = kTile / 2;
  __shared__ alignas(16) int buffer[kStages][kTile];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  const auto block = cg::this_thread_block();
  const bool produces = threadIdx.x < kHalf;
  auto pipeline = cuda::make_pipeline(
      block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  for (int tile = 0; tile < tiles; ++tile) {
    int* stage = buffer[tile % kStages];
    if (produces) {
      pipeline.producer_acquire();
      for (int i = threadIdx.x; i < kTile; i += kHalf) {
        cuda::memcpy_async(stage + i, in + tile * kTile + i, sizeof(int), pipeline);
      }
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      for (int i = threadIdx.x - kHalf; i < kTile; i += kHalf) {
        out[tile * kTile + i] = stage[i] - stage[i ^ 1];
      }
      pipeline.consumer_release();
    }
  }
}

// A tile that a barrier tracks.
extern "C" __global__ void barrier_copy(const int* in, int* out) {
  __shared__ alignas(16) int buffer[kTile];
  __shared__ Barrier barrier;
  const auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  block.sync();
  for (int turn = 0; turn < 3; ++turn) {
    cuda::memcpy_async(block, buffer, in + turn * kTile,
                       cuda::aligned_size_t<16>(sizeof(int) * kTile), barrier);
    barrier.arrive_and_wait();
    out[turn * kTile + threadIdx.x] = buffer[kTile - 1 - threadIdx.x];
    barrier.arrive_and_wait();
  }
}

// A warp leaves after every turn: out[t] = the number of turns that others have counted.
extern "C" __global__ void leaving(int* out) {
  __shared__ Barrier barrier;
  __shared__ int count[4];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  if (threadIdx.x < 4) count[threadIdx.x] = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  for (int turn = 0; turn < warp; ++turn) {
    atomicAdd(&count[turn], 1);
    auto token = barrier.arrive();
    barrier.wait(std::move(token));
  }
  barrier.arrive_and_drop();
  out[threadIdx.x] = warp == 0 ? 0 : count[warp - 1];
}

// cuda_pipeline_primitives.h: groups of cp.async, with zeros behind what is copied.
extern "C" __global__ void primitives(const int* in, int* out) {
  __shared__ alignas(16) int4 buffer[2][kTile];
  const int4* from = reinterpret_cast<const int4*>(in) + threadIdx.x;
  __pipeline_memcpy_async(&buffer[0][threadIdx.x], from, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(&buffer[1][threadIdx.x], from, 16, threadIdx.x % 2 == 0 ? 8 : 0);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  const int4 first = buffer[0][threadIdx.x];
  __pipeline_wait_prior(0);
  const int4 second = buffer[1][threadIdx.x];
  out[threadIdx.x] = first.x + 10 * first.w + 100 * second.y + 1000 * second.z;
}

// cuda_awbarrier_primitives.h
extern "C" __global__ void awbarrier(int* out) {
  __shared__ __mbarrier_t barrier;
  __shared__ int values[kTile];
  if (threadIdx.x == 0) __mbarrier_init(&barrier, blockDim.x);
  __syncthreads();
  values[threadIdx.x] = 5 * threadIdx.x;
  const __mbarrier_token_t token = __mbarrier_arrive(&barrier);
  while (!__mbarrier_test_wait(&barrier, token)) {
  }
  const unsigned pending = __mbarrier_token_pending_count(token);
  out[threadIdx.x] = values[threadIdx.x ^ 127] + (pending >= 1 && pending <= blockDim.x ? 0 : 7000);
}

#if __CUDA_ARCH__ >= 900
namespace ptx = cuda::ptx;

// Bulk copies in and out by cuda::ptx: out = in + 1 by blocks of 1024 words, four parts each.
extern "C" __global__ void bulk_through(const int* in, int* out) {
  __shared__ alignas(128) int buffer[4][256];
  __shared__ alignas(8) uint64_t barrier[4];
  if (threadIdx.x == 0) {
    for (auto& each : barrier) ptx::mbarrier_init(&each, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  const int* source = in + blockIdx.x * 1024;
  int* target = out + blockIdx.x * 1024;
  if (threadIdx.x == 0) {
    for (int part = 0; part < 4; ++part) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
                                     &barrier[part], sizeof(buffer[part]));
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, buffer[part], source + part * 256,
                         sizeof(buffer[part]), &barrier[part]);
    }
  }
  for (int part = 0; part < 4; ++part) {
    while (!ptx::mbarrier_try_wait_parity(&barrier[part], 0)) {
    }
    for (int i = threadIdx.x; i < 256; i += blockDim.x) buffer[part][i] += 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, target + part * 256, buffer[part],
                         sizeof(buffer[part]));
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  __syncthreads();
}

// All blocks of a cluster of 4 add their sums to block 0's, and store theirs beside it.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(const int* in, int* out) {
  __shared__ alignas(16) unsigned sum;
  __shared__ alignas(16) unsigned each[4];
  __shared__ alignas(8) uint64_t barrier;
  const auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  if (threadIdx.x == 0) {
    sum = 0;
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    if (rank == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier,
                                     4 * 8);
    }
  }
  cluster.sync();
  unsigned mine = 0;
  for (int i = 0; i < 64; ++i) mine += in[rank * 64 + i];
  if (threadIdx.x == 0) {
    uint64_t* remote_barrier = cluster.map_shared_rank(&barrier, 0);
    ptx::red_async(ptx::op_add, cluster.map_shared_rank(&sum, 0), mine, remote_barrier);
    ptx::st_async(cluster.map_shared_rank(&each[rank], 0), mine, remote_barrier);
  }
  if (rank == 0) {
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &barrier, 0)) {
    }
    if (threadIdx.x < 4) out[threadIdx.x] = each[threadIdx.x];
    if (threadIdx.x == 4) out[4] = sum;
  }
  cluster.sync();
}
#endif
