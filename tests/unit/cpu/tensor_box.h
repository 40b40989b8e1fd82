// Tensors for tests: DLPack views over vectors.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpfa/formats.h"

namespace mpfa::internal {

template <typename T>
constexpr DLDataType dtype_of() {
  if constexpr (std::is_same_v<T, Bf16>) return {kDLBfloat, 16, 1};
  if constexpr (std::is_same_v<T, Fp16>) return {kDLFloat, 16, 1};
  if constexpr (std::is_same_v<T, float>) return {kDLFloat, 32, 1};
  if constexpr (std::is_same_v<T, double>) return {kDLFloat, 64, 1};
  if constexpr (std::is_same_v<T, E4m3>) return {kDLFloat8_e4m3fn, 8, 1};
  if constexpr (std::is_same_v<T, uint8_t>) return {kDLUInt, 8, 1};
  if constexpr (std::is_same_v<T, int32_t>) return {kDLInt, 32, 1};
  if constexpr (std::is_same_v<T, int64_t>) return {kDLInt, 64, 1};
}

// Owns a compact tensor of up to four dimensions, zero at first.
template <typename T>
class TensorBox {
 public:
  TensorBox() = default;
  explicit TensorBox(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    int64_t count = 1;
    for (int64_t n : shape_) count *= n;
    values_.resize(count);
    bind();
  }
  TensorBox(std::vector<int64_t> shape, std::vector<T> values)
      : shape_(std::move(shape)), values_(std::move(values)) {
    bind();
  }
  TensorBox(const TensorBox& other) : shape_(other.shape_), values_(other.values_) { bind(); }
  TensorBox& operator=(const TensorBox& other) {
    shape_ = other.shape_;
    values_ = other.values_;
    bind();
    return *this;
  }

  const DLTensor& get() const { return tensor_; }
  const DLTensor* ptr() const { return &tensor_; }
  int64_t size(int i) const { return shape_[i]; }
  std::vector<T>& values() { return values_; }
  const std::vector<T>& values() const { return values_; }

  template <typename... Index>
  T& operator()(Index... index) {
    return values_[offset({static_cast<int64_t>(index)...})];
  }
  template <typename... Index>
  const T& operator()(Index... index) const {
    return values_[offset({static_cast<int64_t>(index)...})];
  }

 private:
  size_t offset(std::initializer_list<int64_t> index) const {
    int64_t at = 0;
    int dim = 0;
    for (int64_t i : index) at = at * shape_[dim++] + i;
    return static_cast<size_t>(at);
  }
  void bind() {
    tensor_ = DLTensor{};
    tensor_.data = values_.data();
    tensor_.device = {kDLCPU, 0};
    tensor_.ndim = static_cast<int>(shape_.size());
    tensor_.dtype = dtype_of<T>();
    tensor_.shape = shape_.data();
  }

  std::vector<int64_t> shape_;
  std::vector<T> values_;
  DLTensor tensor_{};
};

// A view with its own shape and strides, made of a compact [a, b, c] tensor as [b, a, c].
class StridedView {
 public:
  explicit StridedView(const DLTensor& tensor) : tensor_(tensor) {
    const int64_t b = tensor.shape[1];
    const int64_t c = tensor.shape[2];
    shape_ = {b, tensor.shape[0], c};
    strides_ = {c, b * c, 1};
    bind();
  }
  StridedView(const StridedView& other)
      : tensor_(other.tensor_), shape_(other.shape_), strides_(other.strides_) {
    bind();
  }
  StridedView& operator=(const StridedView&) = delete;

  const DLTensor& get() const { return tensor_; }

 private:
  void bind() {
    tensor_.shape = shape_.data();
    tensor_.strides = strides_.data();
  }

  DLTensor tensor_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
};

}  // namespace mpfa::internal
