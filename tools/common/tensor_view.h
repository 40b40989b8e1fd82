// Tensors as the commands handle them: strided views, and host memory that owns itself.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "cache/host_tensor.h"

namespace mpfa::tools {

// A strided view of host memory that hands itself out as a DLTensor. Copies share the memory.
class TensorView {
 public:
  TensorView() = default;
  explicit TensorView(const DLTensor& tensor);

  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t size(int dim) const { return shape_[static_cast<size_t>(dim)]; }
  int64_t elements() const;
  DLDataType dtype() const { return tensor_.dtype; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(tensor_.data);
  }

  // Indices [begin, end) of one dimension.
  TensorView slice(int dim, int64_t begin, int64_t end) const;
  // The same memory with two dimensions exchanged.
  TensorView transposed(int dim0, int dim1) const;
  // A compact tensor seen with other extents of the same product.
  TensorView reshaped(std::vector<int64_t> shape) const;

  // Valid as long as this object, and until it is assigned to.
  const DLTensor& dl() const;
  const DLTensor* get() const { return &dl(); }

 private:
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  mutable DLTensor
      tensor_{};  // its pointers are set by dl(), so that copies and moves are harmless
};

// Zeroed, compact row-major host memory.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(std::string_view name, DLDataType dtype, std::initializer_list<int64_t> shape);

  explicit operator bool() const { return memory_ != nullptr; }
  TensorView view() const { return TensorView(dl()); }
  const DLTensor& dl() const { return *memory_->get(); }
  // Null for a default-constructed tensor.
  const DLTensor* get() const { return memory_ ? memory_->get() : nullptr; }
  template <typename T>
  T* data() const {
    return memory_->data<T>();
  }

 private:
  std::unique_ptr<internal::HostTensor> memory_;
};

// Copies a compact tensor of FP32 into another of as many elements.
void copy_floats(const DLTensor& from, const DLTensor& to);

}  // namespace mpfa::tools
