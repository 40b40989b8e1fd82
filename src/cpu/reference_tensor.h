// Strided tensors of any float type up to FP64, element by element: what the oracle reads and
// writes. Slow and simple.
#pragma once

#include "core/tensor.h"

namespace mpfa::internal {

class RealTensor {
 public:
  RealTensor() = default;
  // Checks device, rank, data pointer and type.
  RealTensor(const DLTensor& tensor, std::string_view name, int ndim);

  explicit operator bool() const { return tensor_ != nullptr; }
  int64_t size(int i) const { return tensor_->shape[i]; }

  double load(int64_t i, int64_t j, int64_t k = 0) const;
  // Rounds to the tensor's type: to nearest even, by way of FP32 for the 16-bit types.
  void store(double value, int64_t i, int64_t j, int64_t k = 0) const;

 private:
  int64_t offset(int64_t i, int64_t j, int64_t k) const;

  const DLTensor* tensor_ = nullptr;
  bool fp64_ = false;
  FloatType type_ = FloatType::kFp32;  // where not fp64_
};

}  // namespace mpfa::internal
