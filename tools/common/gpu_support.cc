#include "common/gpu_support.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace mpfa::tools {
namespace {

constexpr int kLeastMajor = 8;  // compute capability

}  // namespace

GpuSupport gpu_support() {
  GpuSupport support;
  support.is_built = true;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    // What the runtime says where there is no driver at all as well.
    support.detail = error == cudaErrorInsufficientDriver
                         ? "no NVIDIA driver, or one older than CUDA 13 needs"
                         : cudaGetErrorString(error);
    return support;
  }
  std::string too_old;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties = {};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    const std::string name =
        fmt::format("{} (sm_{}{})", properties.name, properties.major, properties.minor);
    std::string& list = properties.major >= kLeastMajor ? support.detail : too_old;
    list += (list.empty() ? "" : ", ") + name;
  }
  support.is_usable = !support.detail.empty();
  if (!support.is_usable) {
    support.detail = "no GPU of compute capability 8.0 or later" +
                     (too_old.empty() ? std::string() : ": " + too_old);
  }
  return support;
}

}  // namespace mpfa::tools
