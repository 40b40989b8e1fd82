// How the driver's functions begin and end, and what their tables are made of.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <string_view>

#include "sim/cudart/api.h"
#include "sim/cudart/driver.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {

// The runtime's errors are the driver's by number, but for a few that only the runtime has.
CUresult to_driver(cudaError_t error);

// The body of driver function `name`. A driver's call leaves the runtime's last error alone.
CUresult driver_call(const char* name, const std::function<void()>& body);

// The same of a call of the runtime that does what the driver's does. It takes what makes the call,
// not its result: the last error has to be looked at before.
template <typename Call>
CUresult forward(const Call& call) {
  const cudaError_t before = peek_last_error();
  const cudaError_t result = call();
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
    return forward([&] { return kFunction(args...); });
  }
};

// A function of the driver, where null is the calling thread's stream (its _ptsz or _ptds version).
template <auto kFunction>
struct PerThread;
template <typename... Args, CUresult (*kFunction)(Args...)>
struct PerThread<kFunction> {
  static CUresult call(Args... args) {
    const NullIsPerThread scope;
    return kFunction(args...);
  }
};

template <auto kFunction>
DriverFunction entry(std::string_view name, unsigned since) {
  return {name, reinterpret_cast<void*>(kFunction),
          reinterpret_cast<void*>(&PerThread<kFunction>::call), since};
}
template <auto kFunction>
DriverFunction forwarded(std::string_view name, unsigned since) {
  return entry<&Forwarded<kFunction>::call>(name, since);
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
