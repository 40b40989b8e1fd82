// Hints of what will be read (PTX ISA, "prefetch").
#pragma once

namespace mpfa::kernels::ptx {

// The cache line at `p`, a pointer to global memory, into L2.
__device__ __forceinline__ void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

}  // namespace mpfa::kernels::ptx
