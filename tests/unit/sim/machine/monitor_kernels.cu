// Kernels that use shared memory right, each with a twin that lacks one thing: monitor_nvcc_test.cc
// runs them. Blocks of 128 threads but where said.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// name_right<<<>>>(data) and name_wrong<<<>>>(data).
#define TWINS(name)                                                         \
  extern "C" __global__ void name##_right(int* data) { name<false>(data); } \
  extern "C" __global__ void name##_wrong(int* data) { name<true>(data); }

constexpr int kThreads = 128;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Every level of the tree needs a barrier.
template <bool kWrong>
__device__ void tree_reduction(int* data) {
  __shared__ int sums[kThreads];
  const int t = threadIdx.x;
  sums[t] = data[t];
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    if (!kWrong || half > 32) __syncthreads();
  }
  if (t == 0) data[0] = sums[0];
}
TWINS(tree_reduction)

// The last levels within a warp: lockstep is not promised.
template <bool kWrong>
__device__ void warp_reduction(int* data) {
  __shared__ int sums[kThreads];
  const int t = threadIdx.x;
  sums[t] = data[t];
  for (int half = 16; half > 0; half /= 2) {
    if (!kWrong) __syncwarp();
    const int other = sums[t ^ half];
    if (!kWrong) __syncwarp();
    sums[t] += other;
  }
  data[t] = sums[t];
}
TWINS(warp_reduction)

// Two buffers and one barrier a tile; with one buffer that is not enough.
template <bool kWrong>
__device__ void tiles(int* data) {
  __shared__ int tile[2][kThreads];
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 8; ++i) {
    const int buffer = kWrong ? 0 : i % 2;
    tile[buffer][t] = data[t] + i;
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum += tile[buffer][(t * 7 + k * 37) % kThreads];
  }
  data[t] = sum;
}
TWINS(tiles)

template <bool kWrong>
__device__ void histogram(int* data) {
  __shared__ unsigned counts[16];
  const int t = threadIdx.x;
  if (t < 16) counts[t] = 0;
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    const int bin = (t * 5 + i) % 16;
    if (kWrong && i == 3) {
      ++counts[bin];
    } else {
      atomicAdd(&counts[bin], 1u);
    }
  }
  __syncthreads();
  if (t < 16) data[t] = static_cast<int>(counts[t]);
}
TWINS(histogram)

__device__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Half of the warps produce, half consume: barriers "full" (1, 2) and "empty" (3, 4) of two slots.
template <bool kWrong>
__device__ void named_barriers(int* data) {
  constexpr int kHalf = kThreads / 2;
  __shared__ int slots[2][kHalf];
  const int t = threadIdx.x % kHalf;
  const bool is_producer = threadIdx.x < kHalf;
  int sum = 0;
  for (int i = 0; i < 6; ++i) {
    const int slot = i % 2;
    if (is_producer) {
      if (i >= 2) bar_sync(3 + slot, kThreads);
      slots[slot][t] = i * t;
      bar_arrive(1 + slot, kThreads);
    } else {
      bar_sync(1 + slot, kThreads);
      if (i < 4 && kWrong) bar_arrive(3 + slot, kThreads);
      sum += slots[slot][kHalf - 1 - t];
      if (i < 4 && !kWrong) bar_arrive(3 + slot, kThreads);
    }
  }
  if (!is_producer) data[t] = sum;
}
TWINS(named_barriers)

// A volatile flag needs fences on both sides.
template <bool kWrong>
__device__ void flag(int* data) {
  __shared__ int value;
  __shared__ volatile int is_set;
  if (threadIdx.x == 0) is_set = 0;
  __syncthreads();
  if (threadIdx.x == 64) {
    value = data[64];
    if (!kWrong) __threadfence_block();
    is_set = 1;
  }
  if (threadIdx.x == 32) {
    while (is_set == 0) {
    }
    __threadfence_block();
    data[0] = value;
  }
}
TWINS(flag)

// As in CUDA's threadFenceReduction, with the sums in shared memory.
template <bool kWrong>
__device__ void last_arriver(int* data) {
  __shared__ int sums[kThreads / 32];
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = 0;
  __syncthreads();
  if (threadIdx.x % 32 != 0) return;
  sums[threadIdx.x / 32] = data[threadIdx.x];
  if (!kWrong) __threadfence_block();
  if (atomicAdd(&ticket, 1u) != kThreads / 32 - 1) return;
  __threadfence_block();
  int sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += sums[i];
  data[0] = sum;
}
TWINS(last_arriver)

template <bool kWrong>
__device__ void unwritten(int* data) {
  __shared__ int values[kThreads];
  const int t = threadIdx.x;
  if (!kWrong || t != 77) values[t] = data[t];
  __syncthreads();
  data[t] = values[kThreads - 1 - t];
}
TWINS(unwritten)

// Threads, of one warp and of several, may write one place at a time if they write the same.
template <bool kWrong>
__device__ void same_value(int* data) {
  __shared__ int any;
  const int t = threadIdx.x;
  if (t == 0) any = 0;
  __syncthreads();
  if (t % 32 / 2 == 2) any = kWrong ? t / 32 : 1;
  __syncthreads();
  data[t] = any;
}
TWINS(same_value)

// Threads have a byte each: neighbours in a word do not race.
template <bool kWrong>
__device__ void own_bytes(int* data) {
  __shared__ unsigned char bytes[kThreads + 4];
  __shared__ unsigned short halves[kThreads];
  const int t = threadIdx.x;
  bytes[(t * 33) % kThreads] = static_cast<unsigned char>(data[t]);
  halves[(t * 33) % kThreads] = static_cast<unsigned short>(data[t]);
  const int at = (t * 33 + (kWrong && t == 3 ? 1 : 0)) % kThreads;
  data[t] = bytes[at] + halves[(t * 33) % kThreads];
}
TWINS(own_bytes)

// shfl.sync makes lanes wait, so earlier reads are over, but it orders no writes.
template <bool kWrong>
__device__ void shuffle(int* data) {
  __shared__ int values[kThreads];
  const int t = threadIdx.x;
  values[t] = data[t];
  if (!kWrong) __syncwarp();
  int moved = __shfl_xor_sync(kAllLanes, data[t], 1);
  moved += values[t ^ 3];
  moved += __shfl_xor_sync(kAllLanes, moved, 2);
  values[t] = moved;
  data[t] = moved;
}
TWINS(shuffle)

// As CUB ranks digits: whoever reads a mask last writes it for the next round.
template <bool kWrong>
__device__ void match_masks(int* data) {
  __shared__ int masks[4][8];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (lane < 8) masks[warp][lane] = 0;
  __syncwarp();
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    int* mask = &masks[warp][(lane + i) % 8];
    atomicOr(mask, 1 << lane);
    __syncwarp();
    const int found = *mask;
    const int leader = 31 - __clz(found);
    if (!kWrong) sum += __shfl_sync(kAllLanes, lane, leader);
    if (lane == leader) *mask = 0;
    if (!kWrong) __syncwarp();
  }
  data[threadIdx.x] = sum;
}
TWINS(match_masks)

// Part of a warp.
template <bool kWrong>
__device__ void half_warps(int* data) {
  __shared__ int values[kThreads];
  const int t = threadIdx.x;
  const unsigned mask = (t & 16) != 0 ? 0xFFFF0000u : 0x0000FFFFu;
  int sum = data[t];
  if ((t & 16) != 0) sum *= 3;
  for (int i = 0; i < 4; ++i) {
    values[t] = sum;
    __syncwarp(mask);
    sum += values[t ^ (kWrong && i == 2 ? 16 : 1)];
    __syncwarp(mask);
  }
  data[t] = sum;
}
TWINS(half_warps)

// Threads that have ended do not take part in barriers.
template <bool kWrong>
__device__ void early_ends(int* data) {
  __shared__ int values[kThreads];
  const int t = threadIdx.x;
  values[t] = data[t];
  if (t >= 50) return;
  if (!kWrong) __syncthreads();
  data[t] = values[kThreads - 1 - t];
}
TWINS(early_ends)

// __syncthreads_count and the like are barriers, too.
template <bool kWrong>
__device__ void counted(int* data) {
  __shared__ int values[kThreads];
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    values[t] = i;
    sum += __syncthreads_count(t % 3 == 0);
    sum += values[(t + 40) % kThreads];
    if (!kWrong) sum += __syncthreads_or(t == 5);
  }
  data[t] = sum;
}
TWINS(counted)

// Release and acquire by what cuda::atomic_ref uses.
template <bool kWrong>
__device__ void acquire(int* data) {
  __shared__ int value;
  __shared__ int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&ready));
  if (threadIdx.x == 96) {
    value = data[96];
    asm volatile("st.release.cta.shared::cta.b32 [%0], 1;" ::"r"(at) : "memory");
  }
  if (threadIdx.x == 0) {
    int found = 0;
    do {
      if (kWrong) {
        asm volatile("ld.relaxed.cta.shared::cta.b32 %0, [%1];" : "=r"(found) : "r"(at) : "memory");
      } else {
        asm volatile("ld.acquire.cta.shared::cta.b32 %0, [%1];" : "=r"(found) : "r"(at) : "memory");
      }
    } while (found == 0);
    data[0] = value;
  }
}
TWINS(acquire)

// A lock from compare-and-swap.
template <bool kWrong>
__device__ void lock(int* data) {
  __shared__ int owner;
  __shared__ int total;
  if (threadIdx.x == 0) owner = total = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS(&owner, 0, 1) != 0) {
    }
    __threadfence_block();
    total += data[threadIdx.x];
    if (!kWrong) __threadfence_block();
    atomicExch(&owner, 0);
  }
  __syncthreads();
  data[threadIdx.x] = total;
}
TWINS(lock)

// Vectors, through generic addresses in a function that is not inlined.
__device__ __noinline__ float4 load(const float4* from, int i) { return from[i]; }

template <bool kWrong>
__device__ void vectors(int* data) {
  __shared__ float4 values[kThreads];
  const int t = threadIdx.x;
  const float x = static_cast<float>(data[t]);
  values[t] = make_float4(x, x + 1, x + 2, x + 3);
  if (!kWrong) __syncthreads();
  const float4 other = load(values, (t + 64) % kThreads);
  data[t] = static_cast<int>(other.x + other.y + other.z + other.w);
}
TWINS(vectors)

// ---- clusters: of two blocks

// The peer's values must be there before they are read.
template <bool kWrong>
__device__ void peer_read(int* data) {
  __shared__ int values[kThreads];
  cg::cluster_group cluster = cg::this_cluster();
  const int t = threadIdx.x;
  values[t] = data[t];
  if (kWrong) {
    __syncthreads();
  } else {
    cluster.sync();
  }
  const int* peer = cluster.map_shared_rank(values, cluster.block_rank() ^ 1);
  const int sum = peer[kThreads - 1 - t] + values[t];
  cluster.sync();
  data[t] = sum;
}
TWINS(peer_read)

// A block may not end before its peer has read.
template <bool kWrong>
__device__ void peer_end(int* data) {
  __shared__ int values[kThreads];
  cg::cluster_group cluster = cg::this_cluster();
  const int t = threadIdx.x;
  values[t] = data[t];
  cluster.sync();
  const int* peer = cluster.map_shared_rank(values, cluster.block_rank() ^ 1);
  const int sum = peer[kThreads - 1 - t];
  if (!kWrong) cluster.sync();
  data[t] = sum;
}
TWINS(peer_end)

// Atomics on the peer's memory.
template <bool kWrong>
__device__ void peer_atomic(int* data) {
  __shared__ int total;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) total = 0;
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&total, 0), data[threadIdx.x]);
  if (kWrong) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;");
  } else {
    cluster.sync();
  }
  if (cluster.block_rank() == 0) data[threadIdx.x] = total;
}
TWINS(peer_atomic)
