#include "cuda/device.h"

#include <map>
#include <mutex>

namespace mpfa::internal {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

DeviceInfo look_up(int device) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  MPFA_CHECK(device >= 0 && device < count, "CUDA device ", device, ": there are ", count);
  DeviceInfo info;
  info.sm_count = attribute(cudaDevAttrMultiProcessorCount, device);
  info.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                            attribute(cudaDevAttrComputeCapabilityMinor, device);
  info.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  MPFA_CHECK(info.compute_capability >= 80, "CUDA device ", device, " has compute capability ",
             info.compute_capability / 10, ".", info.compute_capability % 10,
             ": must be 8.0 or later");
  return info;
}

}  // namespace

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw CudaError(str_cat(what, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
}

const DeviceInfo& device_info(int device) {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  return known.emplace(device, look_up(device)).first->second;
}

DeviceGuard::DeviceGuard(int device) : device_(device) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != device_) check_cuda(cudaSetDevice(device_), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() {
  if (before_ != device_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace mpfa::internal
