// What a call passes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/machine/code.h"

namespace mpfa::sim {

// A .param variable in the caller's local frame.
struct PassedValue {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct CallDetail : InsnDetail {
  std::vector<PassedValue> arguments;
  std::vector<PassedValue> results;
  uint32_t function = 0;  // index in KernelCode::functions, of a direct call
};

}  // namespace mpfa::sim
