// Which of a fat binary's PTX a device runs.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "sim/fatbin/fat_binary.h"

namespace mpfa::sim {

// Whether PTX of this target runs on a device of this capability (90): that of an earlier or equal
// portable target, of the same arch-specific one, or of an earlier or equal one of the same family.
bool runs_on(const FatBinaryEntry& entry, int capability);

// The entry made for the latest architecture that the device runs; of several for the same one the
// most specific. nullptr if there is none.
const FatBinaryEntry* choose_ptx(std::span<const FatBinaryEntry> entries, int capability);

// What to tell the user when choose_ptx finds none: what there is, and how to compile.
std::string explain_no_ptx(std::span<const FatBinaryEntry> entries, int capability);

}  // namespace mpfa::sim
