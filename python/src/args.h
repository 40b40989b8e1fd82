// Arguments that come through TVM-FFI, as the C++ API takes them.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/optional.h>

#include "mpfa/check.h"
#include "mpfa/formats.h"
#include "mpfa/stream.h"

namespace mpfa::python {

using tvm::ffi::Array;
using tvm::ffi::Optional;
using tvm::ffi::Tensor;

using OptionalTensor = Optional<Tensor>;

inline const DLTensor& view(const Tensor& tensor) { return *tensor.GetDLTensorPtr(); }

// Valid as long as the argument; null where it is None.
inline const DLTensor* view_or_null(const OptionalTensor& tensor) {
  return tensor.has_value() ? tensor.value().GetDLTensorPtr() : nullptr;
}

// The stream that the caller's framework works on; null on the CPU.
inline cudaStream_t stream_of(const Tensor& tensor) {
  const DLDevice device = tensor.device();
  if (device.device_type != kDLCUDA) return nullptr;
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
}

inline ScaleRule scale_rule_of(bool search_scales) {
  return search_scales ? ScaleRule::kSearch : ScaleRule::kPlain;
}

}  // namespace mpfa::python
