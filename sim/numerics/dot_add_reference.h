// One element of what a tensor core instruction computes, step by step as dot_add_model.h says it:
// the definition that the fast version is held against.
#pragma once

#include <cstdint>
#include <span>

#include "sim/numerics/dot_add_model.h"

namespace mpfa::sim {

// A row of A and a column of B: containers along k, in the low bits (tensor_types.h).
struct DotOperands {
  std::span<const uint64_t> a;
  std::span<const uint64_t> b;
  std::span<const uint8_t> a_scales;  // of each model.scale_block elements
  std::span<const uint8_t> b_scales;
};

// The bits of c + a * b.
uint64_t dot_add_reference(const DotAddModel& model, const DotOperands& operands, uint64_t c);

}  // namespace mpfa::sim
