// Instructions that several lanes of a warp do together: waiting until they are all there.
#pragma once

#include <cstdint>

#include "sim/machine/warp.h"

namespace mpfa::sim {

// For instructions with a member mask (`members`, a value of each lane). True if every live member
// of the active lanes' masks is here: those lanes are active then, and others have been set apart.
// False: the split waits; return Step::kBlock.
bool gather_members(Warp& warp, const Insn& insn, Slot members);

// For .aligned instructions: true if all live lanes of the warp are here.
bool gather_warp(Warp& warp);

}  // namespace mpfa::sim
