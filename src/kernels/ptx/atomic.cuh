// Atomic operations in global memory with an order (PTX ISA, "Memory Consistency Model").
#pragma once

namespace mpfa::kernels::ptx {

// Adds and returns what was there; acquires and releases for the whole GPU.
__device__ __forceinline__ int add_acquire_release(int* place, int x) {
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(place)), "r"(x)
               : "memory");
  return before;
}

}  // namespace mpfa::kernels::ptx
