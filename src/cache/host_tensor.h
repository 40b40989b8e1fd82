// A host tensor that owns zeroed memory: what a KvCache is made of.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

namespace mpfa::internal {

inline constexpr DLDataType kUint8Type{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32Type{kDLInt, 32, 1};
inline constexpr DLDataType kFloat32Type{kDLFloat, 32, 1};
inline constexpr DLDataType kBf16Type{kDLBfloat, 16, 1};
inline constexpr DLDataType kE4m3Type{kDLFloat8_e4m3fn, 8, 1};

// Compact row-major, 64-byte aligned. The memory comes from calloc, so the pages of a large tensor
// are mapped when they are first touched. Neither copied nor moved: views keep its address.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(const HostTensor&) = delete;
  HostTensor& operator=(const HostTensor&) = delete;

  // Throws InvalidArgument where the size overflows, Error where there is not enough memory; both
  // name the tensor and its shape.
  void allocate(std::string_view name, DLDataType dtype, std::initializer_list<int64_t> shape);

  // Null before allocate().
  const DLTensor* get() const { return memory_ == nullptr ? nullptr : &tensor_; }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(tensor_.data);
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };

  std::unique_ptr<void, Free> memory_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  DLTensor tensor_{};
  int64_t bytes_ = 0;
};

}  // namespace mpfa::internal
