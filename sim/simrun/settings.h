// The simulator's settings, which simrun passes to the program in environment variables.
#pragma once

#include <functional>
#include <string>

#include "sim/machine/gpu.h"

namespace mpfa::sim {

inline constexpr const char* kArchVariable = "MPFA_SIM_ARCH";        // sm_90a
inline constexpr const char* kSeedVariable = "MPFA_SIM_SEED";        // 0, 1, ...
inline constexpr const char* kCheckVariable = "MPFA_SIM_CHECK";      // all, none or races,bounds
inline constexpr const char* kThreadsVariable = "MPFA_SIM_THREADS";  // 0: all of the host's
inline constexpr const char* kTraceVariable = "MPFA_SIM_TRACE";      // a file's name

// Options from variables: `get` gives a variable's value, or nullptr. Throws InvalidArgument,
// naming the variable.
GpuOptions options_from(const std::function<const char*(const char*)>& get);

// Those of this process.
GpuOptions options_from_environment();

}  // namespace mpfa::sim
