// What atom, red and reducing copies do to one scalar in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/insn/scalar_type.h"

namespace mpfa::sim {

// One operation: *old = *place; *place = op(*old, *b), or op(*old, *b, *c) for cas. All of them
// point to a scalar of the operation's type, `place` to an aligned one.
struct AtomicStep {
  std::byte* place = nullptr;
  const std::byte* b = nullptr;
  const std::byte* c = nullptr;
  std::byte* old = nullptr;
  // Of add.f32 and add.f64, which differ there: f32's subnormal operands and results are zero in
  // global memory, and a NaN of f64 stays as it is.
  bool in_global = false;
};

// Done as one step for all threads of the host.
using AtomicFunction = void (*)(const AtomicStep& step);

// `op` is the modifier: "add", "cas". `type` is that of one scalar: kF16 for .f16x2. nullptr for
// what PTX does not have.
AtomicFunction find_atomic_function(std::string_view op, ScalarType type);

}  // namespace mpfa::sim
