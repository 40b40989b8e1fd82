// Places in strided tensors.
#pragma once

#include <cstdint>

namespace mpfa::kernels {

// How far `count` strides lead, for a count that is not negative: without its sign the product
// takes half the instructions.
__device__ __forceinline__ int64_t steps(int32_t count, int64_t stride) {
  return static_cast<int64_t>(uint64_t{static_cast<uint32_t>(count)} *
                              static_cast<uint64_t>(stride));
}

}  // namespace mpfa::kernels
