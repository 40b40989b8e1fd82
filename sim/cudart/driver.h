// The few functions of libcuda.so.1 that programs ask the runtime for.
#pragma once

#include <string_view>

namespace mpfa::sim::cudart {

struct DriverFunction {
  std::string_view name;
  void* function;
  unsigned since;  // the CUDA version that brought it, as 12000
};

// nullptr if it is not simulated.
const DriverFunction* find_driver_function(std::string_view name);

}  // namespace mpfa::sim::cudart
