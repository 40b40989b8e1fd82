#include "sim/cudart/driver_call.h"

namespace mpfa::sim::cudart {

CUresult to_driver(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidDeviceFunction:
      return CUDA_ERROR_NOT_FOUND;
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidMemcpyDirection:
      return CUDA_ERROR_INVALID_VALUE;
    default:
      return static_cast<CUresult>(error);
  }
}

CUresult driver_call(const char* name, const std::function<void()>& body) {
  const cudaError_t before = peek_last_error();
  const cudaError_t result = api_call(name, body);
  set_last_error(before);
  return to_driver(result);
}

}  // namespace mpfa::sim::cudart
