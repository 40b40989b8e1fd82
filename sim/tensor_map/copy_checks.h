// What all kinds of tensor copies check of their operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/tensor_map/tensor_map.h"

namespace mpfa::sim {

template <typename... Args>
[[noreturn]] void fail_copy(const Args&... args) {
  throw TensorMapError(internal::str_cat("tensor copy: ", args...));
}

inline void require_mode(const TensorMap& map, TensorMapMode mode) {
  if (map.mode == mode) return;
  if (mode == TensorMapMode::kTiled) {
    fail_copy("the map is an im2col one, the instruction's mode is .tile");
  }
  fail_copy("the map is a tiled one, the instruction's mode is .im2col");
}

inline void require_coordinates(std::span<const int32_t> coordinates, int expected) {
  if (static_cast<int>(coordinates.size()) != expected) {
    fail_copy(coordinates.size(), " coordinates: must be ", expected);
  }
}

// Of a store (PTX ISA, "Restriction on Tensor Copy instructions"). An H200 ends the kernel with an
// illegal instruction.
inline void require_non_negative(std::span<const int32_t> coordinates) {
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (coordinates[i] < 0) {
      fail_copy("coordinate ", i, " = ", coordinates[i], ": must not be negative in a store");
    }
  }
}

}  // namespace mpfa::sim
