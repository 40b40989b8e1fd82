// How the driver's functions begin and end, and what their tables are made of.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <string_view>

#include "sim/cudart/api.h"
#include "sim/cudart/driver.h"
#include "sim/cudart/handle_table.h"

namespace mpfa::sim::cudart {

// The runtime's errors are the driver's by number, but for a few that only the runtime has.
CUresult to_driver(cudaError_t error);

// The body of driver function `name`. A driver's call leaves the runtime's last error alone.
CUresult driver_call(const char* name, const std::function<void()>& body);

// The same of a call of the runtime that does what the driver's does.
inline CUresult forward(cudaError_t result, cudaError_t before) {
  set_last_error(before);
  return to_driver(result);
}

// A runtime function as the driver's function that has the same parameters: CUdeviceptr is passed
// as void* is, and enums and structures of the two have the same numbers and layouts.
template <auto kFunction>
struct Forwarded;
template <typename... Args, cudaError_t (*kFunction)(Args...)>
struct Forwarded<kFunction> {
  static CUresult call(Args... args) {
    const cudaError_t before = peek_last_error();
    return forward(kFunction(args...), before);
  }
};

template <typename Function>
DriverFunction entry(std::string_view name, Function* function, unsigned since) {
  return {name, reinterpret_cast<void*>(function), since};
}

// The handle of the one context.
inline CUcontext the_context() {
  static const char context = 0;
  return to_handle<CUcontext>(&context);
}

inline void* to_pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
inline CUdeviceptr to_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace mpfa::sim::cudart
