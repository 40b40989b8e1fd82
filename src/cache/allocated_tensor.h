// A tensor that owns zeroed memory: what a KvCache is made of.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace mpfa::internal {

inline constexpr DLDataType kUint8Type{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32Type{kDLInt, 32, 1};
inline constexpr DLDataType kFloat32Type{kDLFloat, 32, 1};
inline constexpr DLDataType kBf16Type{kDLBfloat, 16, 1};
inline constexpr DLDataType kE4m3Type{kDLFloat8_e4m3fn, 8, 1};

// Compact row-major, at least 64-byte aligned, on the host or a GPU. The host's memory comes from
// calloc, so the pages of a large tensor are mapped when they are first touched. Neither copied nor
// moved: views keep its address.
class AllocatedTensor {
 public:
  AllocatedTensor() = default;
  AllocatedTensor(const AllocatedTensor&) = delete;
  AllocatedTensor& operator=(const AllocatedTensor&) = delete;

  // Throws InvalidArgument where the size overflows, Error where there is not enough memory; both
  // name the tensor and its shape.
  void allocate(std::string_view name, DLDataType dtype, std::vector<int64_t> shape,
                DLDevice device = {kDLCPU, 0});

  // Null before allocate().
  const DLTensor* get() const { return memory_ == nullptr ? nullptr : &tensor_; }
  int64_t bytes() const { return bytes_; }
  // The host must not look there where the tensor is on a GPU.
  template <typename T>
  T* data() const {
    return static_cast<T*>(tensor_.data);
  }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_{nullptr, std::free};
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  DLTensor tensor_{};
  int64_t bytes_ = 0;
};

}  // namespace mpfa::internal
