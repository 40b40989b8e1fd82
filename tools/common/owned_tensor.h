// Host memory that owns itself and hands itself out as a tensor.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "cache/allocated_tensor.h"
#include "mpfa/tensor.h"

namespace mpfa::tools {

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
  std::unique_ptr<internal::AllocatedTensor> memory_;
};

}  // namespace mpfa::tools
