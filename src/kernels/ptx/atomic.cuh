// Access to global memory that other CTAs use at the same time (PTX ISA, "Memory Consistency
// Model").
#pragma once

#include <cstdint>

namespace mpfa::kernels::ptx {

// Adds and returns what was there, in no order with anything else.
__device__ __forceinline__ int add_relaxed(int* place, int x) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(place)), "r"(x)
               : "memory");
  return before;
}

// Words each of which another CTA may be writing; in global memory.
__device__ __forceinline__ uint2 load_relaxed(const uint2* from) {
  uint2 x;
  asm volatile("ld.relaxed.gpu.global.v2.b32 {%0, %1}, [%2];"
               : "=r"(x.x), "=r"(x.y)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return x;
}
__device__ __forceinline__ uint4 load_relaxed(const uint4* from) {
  uint4 x;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return x;
}

__device__ __forceinline__ void store_relaxed(uint2* to, uint2 x) {
  asm volatile("st.relaxed.gpu.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
               "r"(x.x), "r"(x.y)
               : "memory");
}
__device__ __forceinline__ void store_relaxed(uint4* to, uint4 x) {
  asm volatile(
      "st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
      "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
      : "memory");
}

}  // namespace mpfa::kernels::ptx
