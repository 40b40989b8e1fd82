// Asynchronous copies from global to shared memory (PTX ISA, "Data Movement and Conversion
// Instructions: Asynchronous copy").
#pragma once

#include <cstdint>

namespace mpfa::kernels::ptx {

// kBytes (4, 8 or 16) by this thread; both addresses aligned to them.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
  }
}

// One arrival at the barrier, when all copies of this thread so far are complete.
__device__ __forceinline__ void copies_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits until all copies of this thread are complete.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// Data that is read once: first to leave the L2 cache.
__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Leaves the order in which data leaves the L2 cache as it is.
__device__ __forceinline__ uint64_t evict_unchanged_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// `bytes` (a multiple of 16, both addresses aligned to 16) by the copy engine, counted at
// `barrier`.
__device__ __forceinline__ void bulk_copy(uint32_t to, const void* from, uint32_t bytes,
                                          uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// A box of a 4-dimensional tensor map, counted at `barrier`.
__device__ __forceinline__ void tensor_copy(uint32_t to, const void* map, int x, int y, int z,
                                            int w, uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "l"(policy)
      : "memory");
}

// A box of a 3-dimensional tensor map, counted at `barrier`.
__device__ __forceinline__ void tensor_copy(uint32_t to, const void* map, int x, int y, int z,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
#endif

}  // namespace mpfa::kernels::ptx
