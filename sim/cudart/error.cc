// Names of errors, and the calling thread's last one.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "sim/cudart/api.h"
#include "sim/cudart/not_implemented.h"

namespace mpfa::sim::cudart {

int not_implemented(const char* name) {
  std::fprintf(stderr, "simulated libcudart: %s is not implemented\n", name);
  set_last_error(cudaErrorNotSupported);
  return cudaErrorNotSupported;
}

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define ERROR(name, text) \
  case name:              \
    return #name;
#include "sim/cudart/errors.def"
#undef ERROR
    default:
      return "unrecognized error code";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define ERROR(name, text) \
  case name:              \
    return text;
#include "sim/cudart/errors.def"
#undef ERROR
    default:
      return "unrecognized error code";
  }
}

cudaError_t cudaGetLastError() { return take_last_error(); }

cudaError_t cudaPeekAtLastError() { return peek_last_error(); }

}  // extern "C"
}  // namespace mpfa::sim::cudart
