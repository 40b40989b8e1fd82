// The functions of libcuda.so.1 that are simulated.
#pragma once

#include <span>
#include <string_view>

namespace mpfa::sim::cudart {

struct DriverFunction {
  std::string_view name;
  void* function;
  void* per_thread_function;  // the same, but null is the calling thread's stream
  unsigned since;             // the CUDA version that brought it, as 12000
};

// nullptr if it is not simulated.
const DriverFunction* find_driver_function(std::string_view name);

// Parts of the table, by the file that holds their functions (driver_*.cc).
std::span<const DriverFunction> general_functions();
std::span<const DriverFunction> context_functions();
std::span<const DriverFunction> device_functions();
std::span<const DriverFunction> forwarded_functions();
std::span<const DriverFunction> kernel_functions();
std::span<const DriverFunction> launch_functions();
std::span<const DriverFunction> link_functions();
std::span<const DriverFunction> memory_functions();
std::span<const DriverFunction> module_functions();
std::span<const DriverFunction> tensor_map_functions();
std::span<const DriverFunction> virtual_memory_functions();

}  // namespace mpfa::sim::cudart
