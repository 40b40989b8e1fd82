// Runs all clusters of a grid.
#pragma once

#include <cstdint>

#include "sim/machine/block.h"

namespace mpfa::sim {

// Runs `grid` to its end on up to `threads` host threads; the result does not depend on their
// number (turns.h). `resident` clusters are on the device at a time: they may wait for each other.
// Returns the warp instructions run. Throws the Fault of the first cluster that has one.
uint64_t run_grid(const Grid& grid, uint64_t resident, int threads);

}  // namespace mpfa::sim
