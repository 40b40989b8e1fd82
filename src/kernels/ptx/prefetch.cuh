// Hints of what will be read (PTX ISA, "prefetch").
#pragma once

namespace mpfa::kernels::ptx {

// The cache line at `p`, a pointer to global memory, into L2.
__device__ __forceinline__ void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// A tensor map that copies will use, a kernel's parameter.
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
#endif

}  // namespace mpfa::kernels::ptx
