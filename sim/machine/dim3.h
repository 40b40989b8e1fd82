// Extents and positions of threads, blocks and clusters.
#pragma once

#include <cstdint>

namespace mpfa::sim {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  uint64_t count() const { return uint64_t{x} * y * z; }
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

// The position numbered `index` in `extent`, x fastest.
inline Dim3 position_of(uint64_t index, Dim3 extent) {
  const uint64_t row = index / extent.x;
  return {static_cast<uint32_t>(index % extent.x), static_cast<uint32_t>(row % extent.y),
          static_cast<uint32_t>(row / extent.y)};
}

inline uint64_t index_of(Dim3 position, Dim3 extent) {
  return (uint64_t{position.z} * extent.y + position.y) * extent.x + position.x;
}

}  // namespace mpfa::sim
