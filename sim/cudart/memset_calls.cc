// cudaMemset and its kin.
#include <cuda_runtime_api.h>

#include "sim/cudart/api.h"
#include "sim/cudart/fill.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
extern "C" {

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return api_call("cudaMemset", [&] { issue_checked(nullptr, fill_1d(address, value, bytes)); });
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return api_call("cudaMemsetAsync",
                  [&] { issue_checked(stream, fill_1d(address, value, bytes)); });
}

cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
  return api_call("cudaMemset2D",
                  [&] { issue_checked(nullptr, fill_2d(address, pitch, value, width, height)); });
}

cudaError_t cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return api_call("cudaMemset2DAsync",
                  [&] { issue_checked(stream, fill_2d(address, pitch, value, width, height)); });
}

cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent) {
  return api_call("cudaMemset3D", [&] { issue_checked(nullptr, fill_3d(memory, value, extent)); });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return api_call("cudaMemset3DAsync",
                  [&] { issue_checked(stream, fill_3d(memory, value, extent)); });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
