// mbarriers in shared memory (PTX ISA, "mbarrier"); addresses are of shared memory.
#pragma once

#include <cstdint>

namespace mpfa::kernels::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Waits for `threads` threads, a multiple of 32, that name the same barrier (1 to 15).
__device__ __forceinline__ void barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// One arrival: what this thread has done before is seen by those that wait.
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile(
      "{\n.reg .b64 state;\n mbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier)
      : "memory");
}

// Waits until the phase of this parity is over.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @!done bra again;\n}" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
#else
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n @!done bra again;\n}" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
#endif
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// One arrival, and `bytes` more that copies must bring before the phase ends.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// True in one of the warp's threads.
__device__ __forceinline__ bool elect_one() {
  uint32_t is_elected;
  asm volatile("{\n.reg .pred p;\n elect.sync _|p, 0xFFFFFFFF;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(is_elected));
  return is_elected != 0;
}

// What this thread has initialised becomes visible to copies.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// What this thread has written to shared memory becomes visible to copies.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif

}  // namespace mpfa::kernels::ptx
