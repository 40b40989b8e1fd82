// Functions that the CUDA runtime gives to device code: vprintf, __assertfail, malloc, free,
// cudaGraphSetConditional.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/machine/code.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {

// One lane's call; each argument's bits, at most 8 bytes of it. Returns the result's bits.
using DeviceFunction = uint64_t (*)(Warp& warp, const Insn& insn, int lane,
                                    const std::vector<uint64_t>& arguments);

// nullptr if the runtime has none of that name.
DeviceFunction find_device_function(std::string_view name);

}  // namespace mpfa::sim
