// How many blocks and clusters of a kernel the device holds at once.
#pragma once

#include <cstdint>

#include "sim/cudart/function.h"

namespace mpfa::sim::cudart {

// Registers of a thread: the estimate, but no more than lets a block of the largest size start.
int registers_of(const Kernel& kernel);

// Blocks of `threads` threads on one multiprocessor; 0 if not even one fits.
int max_active_blocks(const Function& function, uint64_t threads, uint64_t dynamic_shared_bytes);

}  // namespace mpfa::sim::cudart
