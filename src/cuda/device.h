// GPUs as the host sees them.
#pragma once

#include <cuda_runtime_api.h>

#include "mpfa/check.h"

namespace mpfa::internal {

// Throws CudaError; `what` names the call.
void check_cuda(cudaError_t error, const char* what);

struct DeviceInfo {
  int sm_count = 0;
  int compute_capability = 0;  // 90 for 9.0
  int shared_bytes = 0;        // of a block, at most
};

// Looked up once a device. Errors: InvalidArgument for a device that is not there or is too old,
// CudaError where there is no driver.
const DeviceInfo& device_info(int device);

// Makes a device the calling thread's, and the one before it again.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard();

 private:
  int before_ = 0;
  int device_ = 0;
};

}  // namespace mpfa::internal
