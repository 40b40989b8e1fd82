// Kernels of the CUDA libraries that use shared memory: none of them is to be reported.
// monitor_nvcc_test.cc runs them with blocks of 128 threads.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cub/cub.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

// Barriers of the library are initialised by their users.
#pragma nv_diag_suppress static_var_with_dynamic_init

constexpr int kThreads = 128;

template <cub::BlockReduceAlgorithm kAlgorithm>
__device__ int reduced(int value) {
  using Reduce = cub::BlockReduce<int, kThreads, kAlgorithm>;
  __shared__ typename Reduce::TempStorage storage;
  const int sum = Reduce(storage).Sum(value);
  __syncthreads();
  return sum;
}

extern "C" __global__ void cub_reduce(int* data) {
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 2; ++i) {
    sum += reduced<cub::BLOCK_REDUCE_RAKING>(data[t] + i);
    sum += reduced<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(data[t]);
    sum += reduced<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(data[t]);
  }
  if (t == 0) data[0] = sum;
}

template <cub::BlockScanAlgorithm kAlgorithm>
__device__ int scanned(int value) {
  using Scan = cub::BlockScan<int, kThreads, kAlgorithm>;
  __shared__ typename Scan::TempStorage storage;
  int result = 0;
  Scan(storage).InclusiveSum(value, result);
  __syncthreads();
  return result;
}

extern "C" __global__ void cub_scan(int* data) {
  const int t = threadIdx.x;
  const int value = data[t];
  data[t] = scanned<cub::BLOCK_SCAN_RAKING>(value) +
            scanned<cub::BLOCK_SCAN_RAKING_MEMOIZE>(value) +
            scanned<cub::BLOCK_SCAN_WARP_SCANS>(value);
}

extern "C" __global__ void cub_sort(int* data) {
  using Sort = cub::BlockRadixSort<int, kThreads, 2>;
  __shared__ typename Sort::TempStorage storage;
  const int t = threadIdx.x;
  int keys[2] = {data[t] * 7919 % 251, data[t] * 104729 % 241};
  Sort(storage).Sort(keys);
  data[2 * t] = keys[0];
  data[2 * t + 1] = keys[1];
}

template <cub::WarpMatchAlgorithm kAlgorithm>
__device__ int ranked(unsigned key) {
  using Rank = cub::BlockRadixRankMatchEarlyCounts<kThreads, 8, false, cub::BLOCK_SCAN_WARP_SCANS,
                                                   kAlgorithm>;
  __shared__ typename Rank::TempStorage storage;
  unsigned keys[1] = {key};
  int ranks[1];
  Rank(storage).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 8));
  __syncthreads();
  return ranks[0];
}

extern "C" __global__ void cub_rank(int* data) {
  const int t = threadIdx.x;
  const unsigned key = static_cast<unsigned>(data[t] * 31);
  data[t] = ranked<cub::WARP_MATCH_ANY>(key) + ranked<cub::WARP_MATCH_ATOMIC_OR>(key);
}

extern "C" __global__ void cub_histogram(int* data) {
  using Histogram = cub::BlockHistogram<unsigned char, kThreads, 2, 16>;
  using Atomic = cub::BlockHistogram<unsigned char, kThreads, 2, 16, cub::BLOCK_HISTO_ATOMIC>;
  __shared__ typename Histogram::TempStorage storage;
  __shared__ typename Atomic::TempStorage atomic_storage;
  __shared__ unsigned counts[2][16];
  const int t = threadIdx.x;
  unsigned char bins[2] = {static_cast<unsigned char>(t % 16),
                           static_cast<unsigned char>(t * t % 16)};
  Histogram(storage).Histogram(bins, counts[0]);
  Atomic(atomic_storage).Histogram(bins, counts[1]);
  __syncthreads();
  if (t < 32) data[t] = static_cast<int>(counts[t / 16][t % 16]);
}

extern "C" __global__ void cub_exchange(int* data) {
  using Exchange = cub::BlockExchange<int, kThreads, 4>;
  using Load = cub::BlockLoad<int, kThreads, 2, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  __shared__ typename Exchange::TempStorage storage;
  __shared__ typename Load::TempStorage load_storage;
  const int t = threadIdx.x;
  int loaded[2];
  Load(load_storage).Load(data, loaded);
  int items[4] = {t, t + 1, loaded[0], loaded[1]};
  Exchange(storage).StripedToBlocked(items, items);
  __syncthreads();
  Exchange(storage).BlockedToWarpStriped(items, items);
  data[t] = items[0] + 3 * items[1] + 5 * items[2] + 7 * items[3];
}

extern "C" __global__ void groups(int* data) {
  __shared__ int values[kThreads];
  cg::thread_block block = cg::this_thread_block();
  const int t = threadIdx.x;
  values[t] = data[t];
  block.sync();
  auto tile = cg::tiled_partition<8>(block);
  int sum = cg::reduce(tile, values[kThreads - 1 - t], cg::plus<int>());
  sum += cg::inclusive_scan(tile, t);
  block.sync();
  values[t] += sum;
  tile.sync();
  sum += values[t ^ 5];
  auto alike = cg::labeled_partition(cg::tiled_partition<32>(block), t % 3);
  sum += alike.shfl(sum, 0);
  data[t] = sum;
}

// Producers and consumers by cuda::barrier.
extern "C" __global__ void barriers(int* data) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(Barrier) char memory[4 * sizeof(Barrier)];
  Barrier* full = reinterpret_cast<Barrier*>(memory);
  Barrier* empty = full + 2;
  __shared__ int slots[2][kThreads / 2];
  if (threadIdx.x < 4) init(full + threadIdx.x, kThreads);
  __syncthreads();
  const int t = threadIdx.x % (kThreads / 2);
  if (threadIdx.x < kThreads / 2) {
    for (int i = 0; i < 6; ++i) {
      empty[i % 2].arrive_and_wait();
      slots[i % 2][t] = i * t;
      (void)full[i % 2].arrive();
    }
    return;
  }
  int sum = 0;
  (void)empty[0].arrive();
  (void)empty[1].arrive();
  for (int i = 0; i < 6; ++i) {
    full[i % 2].arrive_and_wait();
    sum += slots[i % 2][kThreads / 2 - 1 - t];
    if (i < 4) (void)empty[i % 2].arrive();
  }
  data[t] = sum;
}

extern "C" __global__ void pipeline(int* data) {
  constexpr int kStages = 2;
  __shared__ int values[kStages][kThreads];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int next = 0, i = 0; i < 5; ++i) {
    for (; next < 5 && next < i + kStages; ++next) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, values[next % kStages], data, sizeof(int) * kThreads, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += values[i % kStages][(threadIdx.x + 9 * i) % kThreads];
    pipe.consumer_release();
  }
  __syncthreads();
  data[threadIdx.x] = sum;
}

extern "C" __global__ void thread_pipeline(int* data) {
  __shared__ int values[2][kThreads];
  auto pipe = cuda::make_pipeline();
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(&values[i % 2][t], &data[t], sizeof(int), pipe);
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    sum += values[i % 2][(t + 77) % kThreads];
    pipe.consumer_release();
  }
  __syncthreads();
  data[t] = sum;
}

// Messages by atomic references.
extern "C" __global__ void references(int* data) {
  __shared__ int payload[4];
  __shared__ int turn;
  if (threadIdx.x == 0) turn = 0;
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block> shared_turn(turn);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    while (shared_turn.load(cuda::memory_order_acquire) != warp) {
    }
    payload[warp] = warp == 0 ? 5 : payload[warp - 1] * 3;
    shared_turn.fetch_add(1, cuda::memory_order_release);
  }
  if (threadIdx.x == 1) {
    while (shared_turn.load(cuda::memory_order_seq_cst) != 4) {
    }
    data[0] = payload[3];
  }
}

// A cuda::barrier that counts a bulk copy.
extern "C" __global__ void bulk_copies(int* data) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(128) int values[kThreads];
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) {
      cuda::memcpy_async(values, data, cuda::aligned_size_t<16>(sizeof(values)), barrier);
    }
    barrier.arrive_and_wait();
    sum += values[kThreads - 1 - threadIdx.x];
    barrier.arrive_and_wait();
  }
  data[kThreads + threadIdx.x] = sum;
}
