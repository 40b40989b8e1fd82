// Tensors that keep what owns their memory.
#pragma once

#include <tvm/ffi/container/tensor.h>

#include <any>
#include <memory>

#include "args.h"

namespace mpfa::python {

// The elements of `tensor`, alive as long as anybody has the result: `owner` holds them, the shape
// and the strides.
Tensor owned_tensor(const DLTensor& tensor, std::any owner);

}  // namespace mpfa::python
