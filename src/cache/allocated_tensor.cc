#include "cache/allocated_tensor.h"

#include <cstddef>
#include <utility>

#include "core/tensor.h"
#include "cuda/memory.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

// A cache line, and the widest vector load.
constexpr int64_t kAlignment = 64;

// A tensor without data that only lends its shape to messages.
DLTensor shape_only(std::vector<int64_t>& shape) {
  DLTensor tensor{};
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.shape = shape.data();
  return tensor;
}

}  // namespace

void AllocatedTensor::allocate(std::string_view name, DLDataType dtype, std::vector<int64_t> shape,
                               DLDevice device) {
  shape_ = std::move(shape);
  strides_.assign(shape_.size(), 1);
  int64_t bytes = (dtype.bits * dtype.lanes + 7) / 8;
  bool fits = true;
  for (size_t i = shape_.size(); i-- > 0;) {
    if (i + 1 < shape_.size()) strides_[i] = strides_[i + 1] * shape_[i + 1];
    fits = fits && !__builtin_mul_overflow(bytes, shape_[i], &bytes);
    if (!fits) break;
  }
  int64_t padded = 0;
  fits = fits && !__builtin_add_overflow(bytes, kAlignment, &padded);
  MPFA_CHECK(fits, name, " would have shape ", shape_string(shape_only(shape_)),
             ": its bytes must fit a 64-bit integer");
  if (device.device_type == kDLCUDA) {
    memory_ = {cuda_allocate(device.device_id, padded), cuda_free};
  } else {
    memory_ = {std::calloc(static_cast<size_t>(padded), 1), std::free};
  }
  if (memory_ == nullptr) {
    throw_error<Error>(__FILE__, __LINE__, "not enough memory for ", name, " of shape ",
                       shape_string(shape_only(shape_)), ": ", bytes, " bytes");
  }
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  const uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
  tensor_.data = static_cast<std::byte*>(memory_.get()) + (aligned - address);
  tensor_.device = device;
  tensor_.ndim = static_cast<int32_t>(shape_.size());
  tensor_.dtype = dtype;
  tensor_.shape = shape_.data();
  tensor_.strides = strides_.data();
  bytes_ = bytes;
}

}  // namespace mpfa::internal
