// What the checks see of a kernel's memory accesses.
#pragma once

#include "sim/machine/memory_access.h"

namespace mpfa::sim {

// Told of every access of a warp before it is done.
inline void observe(Warp& /*warp*/, const Insn& /*insn*/, const Access& /*access*/) {}

}  // namespace mpfa::sim
