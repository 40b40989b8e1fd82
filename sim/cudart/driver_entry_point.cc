// cudaGetDriverEntryPoint: the functions of the driver that programs reach without linking it.
#include <cuda_runtime_api.h>

#include <string_view>

#include "sim/cudart/api.h"
#include "sim/cudart/driver.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

// Which of the two versions `flags` ask for; by default the one that goes with the caller's.
bool wants_per_thread(unsigned long long flags) {
  require(flags == cudaEnableDefault || flags == cudaEnableLegacyStream ||
              flags == cudaEnablePerThreadDefaultStream,
          cudaErrorInvalidValue, "flags = ", flags);
  return flags == cudaEnablePerThreadDefaultStream ||
         (flags == cudaEnableDefault && is_null_per_thread());
}

void find_entry_point(const char* name, void** function, unsigned version, unsigned long long flags,
                      cudaDriverEntryPointQueryResult* result) {
  require_pointer(name, "symbol");
  require_pointer(function, "funcPtr");
  const bool per_thread = wants_per_thread(flags);
  const DriverFunction* found = find_driver_function(name);
  *function = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
  if (found != nullptr) {
    answer = version < found->since ? cudaDriverEntryPointVersionNotSufficent
                                    : cudaDriverEntryPointSuccess;
  } else if (std::string_view(name).starts_with("cu")) {
    say(std::string("the driver's function ") + name +
        " is not simulated (asked for by cudaGetDriverEntryPoint)");
  }
  if (answer == cudaDriverEntryPointSuccess) {
    *function = per_thread ? found->per_thread_function : found->function;
  }
  if (result != nullptr) *result = answer;
}

constexpr unsigned kNewest = 13000;

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return api_call("cudaGetDriverEntryPoint",
                  [&] { find_entry_point(name, function, kNewest, flags, result); });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  return api_call("cudaGetDriverEntryPointByVersion",
                  [&] { find_entry_point(name, function, version, flags, result); });
}

// For the simulated libcuda.so.1 (sim/cuda_driver).
void* __cudaSimulatedDriverFunction(const char* name, bool per_thread) {
  const DriverFunction* found = find_driver_function(name);
  if (found == nullptr) return nullptr;
  return per_thread ? found->per_thread_function : found->function;
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
