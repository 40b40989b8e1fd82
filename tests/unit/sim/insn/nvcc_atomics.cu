// What CUDA programs do with atomic operations, for nvcc to compile.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cuda/atomic>

// Each thread of the grid does every operation of CUDA's once. `words[0]` to [10] begin as 0.
extern "C" __global__ void integers(unsigned* words, int* numbers, unsigned long long* longs) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&words[0], thread);
  atomicSub(&words[1], 2u);
  atomicInc(&words[2], 6u);
  atomicDec(&words[3], 6u);
  atomicMin(&words[4], ~thread);
  atomicMax(&words[5], thread);
  atomicAnd(&words[6], ~(1u << (thread % 31)));
  atomicOr(&words[7], 1u << (thread % 31));
  atomicXor(&words[8], thread);
  atomicCAS(&words[9], thread, thread + 1);
  atomicExch(&words[10], thread + 1);
  atomicMin(&numbers[0], -static_cast<int>(thread));
  atomicMax(&numbers[1], -static_cast<int>(thread) - 1);
  atomicAdd_block(&numbers[2], 1);
  atomicAdd_system(&numbers[3], -1);
  atomicAdd(&longs[0], 1ull << 40);
  atomicMin(&longs[1], ~0ull - thread);
  atomicMax(&longs[2], static_cast<unsigned long long>(thread) << 33);
  atomicAnd(&longs[3], ~(1ull << (thread % 64)));
  atomicOr(&longs[4], 1ull << (thread % 63));
  atomicXor(&longs[5], static_cast<unsigned long long>(thread) << 20);
  atomicMin(reinterpret_cast<long long*>(&longs[6]), -static_cast<long long>(thread));
}

// Small integers: every order gives the same sum.
extern "C" __global__ void floats(float* f, double* d, float2* f2, float4* f4, __half* h,
                                  __half2* h2, __nv_bfloat16* b, __nv_bfloat162* b2) {
  __shared__ float shared_float;
  __shared__ double shared_double;
  if (threadIdx.x == 0) {
    shared_float = 0;
    shared_double = 0;
  }
  __syncthreads();
  atomicAdd(&shared_float, 1.0f);
  atomicAdd(&shared_double, 0.5);
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&f[1], shared_float);
    atomicAdd(&d[1], shared_double);
  }
  atomicAdd(f, 0.25f);
  atomicAdd(d, 0.125);
  atomicAdd(f2, make_float2(1, 2));
  atomicAdd(f4, make_float4(1, 2, 3, 4));
  const int warp = threadIdx.x / 32;  // Halves hold no more than this many.
  atomicAdd(&h[warp], __float2half(1.0f));
  atomicAdd(&h2[warp], __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(&b[warp], __float2bfloat16(1.0f));
  atomicAdd(&b2[warp], __floats2bfloat162_rn(1.0f, 2.0f));
}

extern "C" __global__ void references(int* words, unsigned char* bytes, short* shorts, double* d) {
  using Int = cuda::atomic_ref<int, cuda::thread_scope_device>;
  Int(words[0]).fetch_add(2, cuda::memory_order_acq_rel);
  Int(words[1]).fetch_sub(3, cuda::memory_order_relaxed);
  Int(words[2]).fetch_or(static_cast<int>(threadIdx.x));
  Int(words[3]).fetch_max(static_cast<int>(threadIdx.x), cuda::memory_order_release);
  Int word(words[4]);
  for (int seen = word.load(); !word.compare_exchange_weak(seen, seen + 5);) {
  }
  cuda::atomic_ref<unsigned char, cuda::thread_scope_device>(bytes[1]).fetch_add(3);
  cuda::atomic_ref<short, cuda::thread_scope_block>(shorts[1]).fetch_add(-2);
  cuda::atomic_ref<double, cuda::thread_scope_system>(d[0]).fetch_add(0.5);
}

// A spin lock between threads of warps and blocks, around a plain counter.
extern "C" __global__ void locked(int* lock, volatile int* counter) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *counter = *counter + 1;
  __threadfence();
  atomicExch(lock, 0);
}

// SIMD in a word, which the headers do with video instructions; copysign.
extern "C" __global__ void words_of_bytes(const unsigned* in, unsigned* out, float* signs) {
  const unsigned a = in[2 * threadIdx.x];
  const unsigned b = in[2 * threadIdx.x + 1];
  out[2 * threadIdx.x] = __vabsdiffu4(a, b);
  out[2 * threadIdx.x + 1] = __vsadu4(a, b);
  signs[threadIdx.x] = copysignf(1.5f, __uint_as_float(a));
}
