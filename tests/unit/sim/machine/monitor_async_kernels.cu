// Kernels with asynchronous operations, right and wrong, as those of monitor_kernels.cu: blocks of
// 128 threads, and no library between them and the instructions.
#include <cstdint>

#define TWINS(name)                                                         \
  extern "C" __global__ void name##_right(int* data) { name<false>(data); } \
  extern "C" __global__ void name##_wrong(int* data) { name<true>(data); }

constexpr int kThreads = 128;
constexpr int kBytes = kThreads * 4;

__device__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ void init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ void arrive_expect(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(
          shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void bulk_load(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ void bulk_store(void* to, const void* from, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}
__device__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void copy_async(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- cp.async

// A thread's own copy is there when it has waited.
template <bool kWrong>
__device__ void own_copy(int* data) {
  __shared__ int values[kThreads];
  const int t = threadIdx.x;
  copy_async(&values[t], &data[t]);
  commit_copies();
  if (!kWrong) wait_copies<0>();
  data[t] = values[t] * 2;
}
TWINS(own_copy)

// Others' copies are there after a barrier behind the wait.
template <bool kWrong>
__device__ void copies_of_others(int* data) {
  __shared__ int values[2][kThreads];
  const int t = threadIdx.x;
  int sum = 0;
  copy_async(&values[0][t], &data[t]);
  commit_copies();
  for (int i = 0; i < 6; ++i) {
    if (i + 1 < 6) copy_async(&values[(i + 1) % 2][t], &data[t]);
    commit_copies();
    wait_copies<1>();
    if (!kWrong || i != 4) __syncthreads();
    sum += values[i % 2][(t + 50) % kThreads];
    __syncthreads();
  }
  data[t] = sum;
}
TWINS(copies_of_others)

// Copies that an mbarrier counts.
template <bool kWrong>
__device__ void counted_copies(int* data) {
  __shared__ int values[kThreads];
  __shared__ uint64_t barrier;
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, kThreads);
  __syncthreads();
  copy_async(&values[t], &data[t]);
  if (kWrong) {
    arrive(&barrier);
  } else {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&barrier))
                 : "memory");
  }
  wait(&barrier, 0);
  data[t] = values[kThreads - 1 - t];
}
TWINS(counted_copies)

// ---- cp.async.bulk

template <bool kWrong>
__device__ void load(int* data) {
  alignas(16) __shared__ int values[kThreads];
  __shared__ uint64_t barrier;
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, 1);
  __syncthreads();
  if (t == 0) {
    arrive_expect(&barrier, kBytes);
    bulk_load(values, data, kBytes, &barrier);
  }
  if (!kWrong || t != 90) wait(&barrier, 0);
  data[t] = values[t] + 1;
}
TWINS(load)

// A ring of two slots: they may be loaded again when all have said that they have read them.
template <bool kWrong>
__device__ void ring(int* data) {
  alignas(16) __shared__ int values[2][kThreads];
  __shared__ uint64_t full[2];
  __shared__ uint64_t empty[2];
  const int t = threadIdx.x;
  if (t < 2) {
    init(&full[t], 1);
    init(&empty[t], kThreads - 32);
  }
  __syncthreads();
  if (t < 32) {
    for (int i = 0; t == 0 && i < 6; ++i) {
      wait(&empty[i % 2], (i / 2 + 1) % 2);
      arrive_expect(&full[i % 2], kBytes);
      bulk_load(values[i % 2], data, kBytes, &full[i % 2]);
    }
    return;
  }
  int sum = 0;
  for (int i = 0; i < 6; ++i) {
    wait(&full[i % 2], i / 2 % 2);
    if (kWrong) arrive(&empty[i % 2]);
    sum += values[i % 2][t] * values[i % 2][kThreads - t];
    if (!kWrong) arrive(&empty[i % 2]);
  }
  data[kThreads + t] = sum;
}
TWINS(ring)

// One lane may arrive for its warp when the others have been waited for.
template <bool kWrong>
__device__ void one_arrival(int* data) {
  __shared__ int values[kThreads];
  __shared__ uint64_t barrier;
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, kThreads / 32);
  __syncthreads();
  values[t] = data[t];
  if (!kWrong) __syncwarp();
  if (t % 32 == 0) arrive(&barrier);
  wait(&barrier, 0);
  data[t] = values[(t + 33) % kThreads];
}
TWINS(one_arrival)

// What threads have written must be made known to the asynchronous proxy.
template <bool kWrong>
__device__ void store(int* data) {
  alignas(16) __shared__ int values[kThreads];
  const int t = threadIdx.x;
  values[t] = data[t] * 3;
  if (!kWrong) fence_async();
  __syncthreads();
  if (t == 0) {
    bulk_store(data, values, kBytes);
    wait_stores_read();
  }
}
TWINS(store)

// The fence may also stand behind the barrier.
template <bool kWrong>
__device__ void store_fenced_late(int* data) {
  alignas(16) __shared__ int values[kThreads];
  const int t = threadIdx.x;
  if (kWrong) fence_async();
  values[t] = data[t] * 5;
  __syncthreads();
  if (t == 0) {
    if (!kWrong) fence_async();
    bulk_store(data, values, kBytes);
    wait_stores_read();
  }
}
TWINS(store_fenced_late)

// A source may be written again when it has been read.
template <bool kWrong>
__device__ void store_twice(int* data) {
  alignas(16) __shared__ int values[kThreads];
  const int t = threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    values[t] = t * (i + 1);
    fence_async();
    __syncthreads();
    if (t == 0) {
      bulk_store(data + i * kThreads, values, kBytes);
      if (!kWrong || i == 1) wait_stores_read();
    }
    __syncthreads();
  }
}
TWINS(store_twice)

// A block may not end before its stores have read.
template <bool kWrong>
__device__ void store_and_end(int* data) {
  alignas(16) __shared__ int values[kThreads];
  const int t = threadIdx.x;
  values[t] = t + 7;
  fence_async();
  __syncthreads();
  if (t == 0) {
    bulk_store(data, values, kBytes);
    if (!kWrong) wait_stores_read();
  }
}
TWINS(store_and_end)

// What only an asynchronous operation would read must have been written, too.
template <bool kWrong>
__device__ void store_unwritten(int* data) {
  alignas(16) __shared__ int values[kThreads];
  const int t = threadIdx.x;
  if (!kWrong || t != 100) values[t] = t + 7;
  fence_async();
  __syncthreads();
  if (t == 0) {
    bulk_store(data, values, kBytes);
    wait_stores_read();
  }
}
TWINS(store_unwritten)

// ---- wgmma: 64 x 8 x 16, both operands in shared memory

struct Operands {
  uint32_t a[512];  // 64 rows of 16 numbers of 16 bits, in blocks of 8 rows of 16 bytes
  uint32_t b[64];
};

__device__ uint64_t descriptor(const void* at) {
  constexpr uint64_t kAlongK = 128 >> 4;  // bytes to the next block, in 16
  constexpr uint64_t kAlongRows = 256 >> 4;
  return shared_address(at) >> 4 | kAlongK << 16 | kAlongRows << 32;
}
__device__ void multiply(const Operands& from, float (&d)[4]) {
  asm volatile(
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(from.a)), "l"(descriptor(from.b))
      : "memory");
}
__device__ void wait_multiply(float (&d)[4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
}
__device__ void fill(Operands& operands, int t) {
  for (int i = t; i < 512; i += kThreads) operands.a[i] = 0x3C003C00;  // ones
  if (t < 64) operands.b[t] = 0x40004000;                              // twos
}

template <bool kWrong>
__device__ void product(int* data) {
  alignas(128) __shared__ Operands operands;
  const int t = threadIdx.x;
  float d[4] = {};
  fill(operands, t);
  if (!kWrong) fence_async();
  __syncthreads();
  multiply(operands, d);
  wait_multiply(d);
  data[t] = static_cast<int>(d[0] + d[1] + d[2] + d[3]);
}
TWINS(product)

// Operands may be overwritten when all have waited.
template <bool kWrong>
__device__ void operands_again(int* data) {
  alignas(128) __shared__ Operands operands;
  const int t = threadIdx.x;
  float d[4] = {};
  for (int i = 0; i < 2; ++i) {
    fill(operands, t);
    fence_async();
    __syncthreads();
    multiply(operands, d);
    if (!kWrong || i == 1) wait_multiply(d);
    __syncthreads();
  }
  data[t] = static_cast<int>(d[0]);
}
TWINS(operands_again)

// ---- clusters of two

__device__ uint32_t in_peer(const void* at) { return shared_address(at) ^ (1u << 24); }
__device__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Stores that the peer's mbarrier counts.
template <bool kWrong>
__device__ void remote_stores(int* data) {
  __shared__ int values[kThreads];
  __shared__ uint64_t barrier;
  const int t = threadIdx.x;
  if (t == 0) {
    init(&barrier, 1);
    arrive_expect(&barrier, kBytes);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  cluster_wait();
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                   in_peer(&values[t])),
               "r"(data[t]), "r"(in_peer(&barrier))
               : "memory");
  if (!kWrong || t != 3) wait(&barrier, 0);
  const int sum = values[kThreads - 1 - t];
  if (kWrong) wait(&barrier, 0);
  cluster_arrive();
  cluster_wait();
  data[t] = sum;
}
TWINS(remote_stores)

// The last arrivals at a peer's mbarrier must be waited for before the peer ends.
template <bool kWrong>
__device__ void remote_arrival(int* data) {
  __shared__ uint64_t barrier;
  const int t = threadIdx.x;
  if (t == 0) {
    init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_arrive();
  cluster_wait();
  if (t == 0) {
    asm volatile(
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(in_peer(&barrier))
        : "memory");
  }
  if (!kWrong) wait(&barrier, 0);
  data[t] = t;
}
TWINS(remote_arrival)
