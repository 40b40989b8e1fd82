// The table of the driver's functions; its errors, and how programs reach the rest.
#include "sim/cudart/driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "sim/cudart/driver_call.h"

namespace mpfa::sim::cudart {
namespace {

// nullptr for a number that is no error.
const char* name_of(CUresult error) {
  switch (error) {
#define ERROR(name) \
  case name:        \
    return #name;
#include "sim/cudart/driver_errors.def"
#undef ERROR
  }
  return nullptr;
}

CUresult get_error_name(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = name_of(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool is_known = name_of(error) != nullptr;
  *text = is_known ? cudaGetErrorString(static_cast<cudaError_t>(error)) : nullptr;
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult init(unsigned /*flags*/) { return CUDA_SUCCESS; }

CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* result) {
  cudaDriverEntryPointQueryResult answer{};
  const CUresult error = forward([&] {
    return cudaGetDriverEntryPointByVersion(name, function, static_cast<unsigned>(version), flags,
                                            &answer);
  });
  if (result != nullptr) *result = static_cast<CUdriverProcAddressQueryResult>(answer);
  return error;
}

}  // namespace

std::span<const DriverFunction> general_functions() {
  static const DriverFunction kAll[] = {
      entry<init>("cuInit", 2000),
      entry<get_error_name>("cuGetErrorName", 6000),
      entry<get_error_string>("cuGetErrorString", 6000),
      entry<get_proc_address>("cuGetProcAddress", 12000),
  };
  return kAll;
}

const DriverFunction* find_driver_function(std::string_view name) {
  for (const auto& functions :
       {general_functions(), context_functions(), device_functions(), forwarded_functions(),
        kernel_functions(), launch_functions(), link_functions(), memory_functions(),
        module_functions(), tensor_map_functions(), virtual_memory_functions()}) {
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [name](const DriverFunction& f) { return f.name == name; });
    if (found != functions.end()) return &*found;
  }
  return nullptr;
}

}  // namespace mpfa::sim::cudart
