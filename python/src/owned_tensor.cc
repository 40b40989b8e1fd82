#include "owned_tensor.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "cache/allocated_tensor.h"
#include "export.h"

namespace mpfa::python {
namespace {

struct ManagedTensor {
  DLManagedTensorVersioned managed;
  std::any owner;
};

void delete_managed(DLManagedTensorVersioned* managed) {
  delete static_cast<ManagedTensor*>(managed->manager_ctx);
}

// Zeroed memory of the library's own, for frameworks without a way to allocate here.
Tensor zeros(const Array<int64_t>& shape, DLDataType dtype, DLDevice device) {
  auto tensor = std::make_shared<internal::AllocatedTensor>();
  tensor->allocate("out", dtype, {shape.begin(), shape.end()}, device);
  return owned_tensor(*tensor->get(), tensor);
}

// The same bytes under another type of the same size, which NumPy has no name for.
Tensor retype(const Tensor& tensor, DLDataType dtype) {
  MPFA_CHECK(dtype.bits == tensor.dtype().bits && dtype.lanes == tensor.dtype().lanes, "dtype has ",
             static_cast<int>(dtype.bits), " bits: must have the tensor's ",
             static_cast<int>(tensor.dtype().bits));
  DLTensor view = *tensor.GetDLTensorPtr();
  view.dtype = dtype;
  return owned_tensor(view, tensor);
}

}  // namespace

Tensor owned_tensor(const DLTensor& tensor, std::any owner) {
  auto held = std::make_unique<ManagedTensor>();
  held->owner = std::move(owner);
  held->managed = {};
  held->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  held->managed.manager_ctx = held.get();
  held->managed.deleter = delete_managed;
  held->managed.dl_tensor = tensor;
  Tensor result = Tensor::FromDLPackVersioned(&held->managed);
  static_cast<void>(held.release());  // the result deletes it
  return result;
}

}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(zeros)
MPFA_PYTHON_EXPORT(retype)
