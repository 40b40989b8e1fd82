// The one simulated device of the process.
#pragma once

#include "sim/machine/gpu.h"

namespace mpfa::sim::cudart {

// Made when first asked for, from the MPFA_SIM_* variables (sim/simrun/settings.h). Throws
// ApiError, saying so once on stderr, when they make no sense.
Gpu& gpu();

// The device's model: what can be known without making the device.
const DeviceModel& model();

}  // namespace mpfa::sim::cudart
