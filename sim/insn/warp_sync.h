// Instructions that several lanes of a warp do together: waiting until they are all there.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "sim/machine/each_lane.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {

// For instructions with a member mask (`members`, a value of each lane). True if every live member
// of the active lanes' masks is here: those lanes are active then, and others have been set apart.
// False: the split waits; return Step::kBlock.
bool gather_members(Warp& warp, const Insn& insn, Slot members);

// For .aligned instructions: true if all live lanes of the warp are here.
bool gather_warp(Warp& warp);

// The value that all active lanes must have in common; `what` they do if they do not: "name
// different barriers".
template <class T>
T common_value(Warp& warp, const Insn& insn, Slot slot, const char* what) {
  const T* values = warp.source<T>(slot);
  const T first = values[std::countr_zero(warp.mask)];
  if ((slot & kPoolBit) != 0) return first;
  for_each_lane(warp.mask, [&](int lane) {
    if (values[lane] == first) return;
    warp.fail(FaultKind::kCheck, insn, 1u << lane, std::string("threads of a warp ") + what);
  });
  return first;
}

}  // namespace mpfa::sim
