// Rows of results, a piece of 16 bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpfa::kernels {

// Eight elements, in one piece where the address allows it.
__device__ __forceinline__ void store_piece(std::byte* to, bool is_aligned, const uint4& words) {
  if (is_aligned) {
    *reinterpret_cast<uint4*>(to) = words;
    return;
  }
  const uint32_t all[4] = {words.x, words.y, words.z, words.w};
  auto* elements = reinterpret_cast<uint16_t*>(to);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    elements[i] = static_cast<uint16_t>(all[i / 2] >> (16 * (i % 2)));
  }
}

}  // namespace mpfa::kernels
