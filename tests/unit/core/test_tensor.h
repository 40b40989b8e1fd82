// A DLTensor that owns its shape, strides and elements.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mpfa::core_test {

inline constexpr DLDataType kUint8 = {kDLUInt, 8, 1};
inline constexpr DLDataType kInt32 = {kDLInt, 32, 1};
inline constexpr DLDataType kInt64 = {kDLInt, 64, 1};
inline constexpr DLDataType kFloat16 = {kDLFloat, 16, 1};
inline constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};
inline constexpr DLDataType kFloat64 = {kDLFloat, 64, 1};
inline constexpr DLDataType kBfloat16 = {kDLBfloat, 16, 1};
inline constexpr DLDataType kFloat8E4m3 = {kDLFloat8_e4m3fn, 8, 1};
inline constexpr DLDataType kFloat4Pair = {kDLFloat4_e2m1fn, 4, 2};

class TestTensor {
 public:
  // Zeroed and compact. Nothing is allocated beyond the product of `shape`.
  TestTensor(DLDataType dtype, std::vector<int64_t> shape) : shape_(std::move(shape)) {
    int64_t count = 1;
    for (const int64_t n : shape_) count *= n;
    // As 64-bit words: aligned for every type.
    const size_t bytes = static_cast<size_t>(count) * dtype.bits * dtype.lanes / 8;
    words_.resize(bytes / 8 + 1);
    tensor_.data = words_.data();
    tensor_.device = {kDLCPU, 0};
    tensor_.dtype = dtype;
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.shape = shape_.data();
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  DLTensor& operator*() { return tensor_; }
  DLTensor* operator->() { return &tensor_; }
  DLTensor* get() { return &tensor_; }

  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(words_.data());
  }
  template <typename T>
  void fill(const std::vector<T>& values) {
    std::copy(values.begin(), values.end(), data<T>());
  }
  void set_strides(std::vector<int64_t> strides) {
    strides_ = std::move(strides);
    tensor_.strides = strides_.data();
  }
  // The shape alone changes; the elements stay as many as they were.
  void set_shape(std::vector<int64_t> shape) {
    shape_ = std::move(shape);
    tensor_.shape = shape_.data();
    tensor_.ndim = static_cast<int32_t>(shape_.size());
  }
  void set_size(int dim, int64_t size) { shape_[dim] = size; }

 private:
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  std::vector<uint64_t> words_;
  DLTensor tensor_{};
};

}  // namespace mpfa::core_test
