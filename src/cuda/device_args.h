// The tensors of a call on a GPU, made ready for the checks that all back ends share.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <deque>
#include <string_view>

#include "mpfa/cache.h"

namespace mpfa::internal {

// Takes tensors that must all lie on one GPU, and gives views of them that the checks of core/ take
// for host memory: they look at shapes, strides and addresses, and by Values::kOnDevice at nothing
// else. The views live as long as this object.
class DeviceArgs {
 public:
  // `first`, named `name`, says which GPU.
  DeviceArgs(const DLTensor& first, std::string_view name);

  int device() const { return device_; }

  // Errors: InvalidArgument for another device.
  const DLTensor& take(const DLTensor& tensor, std::string_view name);
  const DLTensor* take(const DLTensor* tensor, std::string_view name);
  KvCacheView take(const KvCacheView& cache);

  // The counter of errors that kernels find; null where none is given.
  int32_t* error_counter(const DLTensor* error_count);

 private:
  int device_;
  std::string_view first_name_;
  std::deque<DLTensor> views_;  // which do not move
};

}  // namespace mpfa::internal
