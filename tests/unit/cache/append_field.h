// Tensors with any strides in a block of bytes, for append_kv's tests.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "mpfa/formats.h"

namespace mpfa::internal {

inline constexpr DLDataType kInt32 = {kDLInt, 32, 1};
inline constexpr DLDataType kInt64 = {kDLInt, 64, 1};
inline constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};
inline constexpr DLDataType kFloat16 = {kDLFloat, 16, 1};
inline constexpr DLDataType kBfloat16 = {kDLBfloat, 16, 1};
inline constexpr DLDataType kUint8 = {kDLUInt, 8, 1};
inline constexpr DLDataType kFloat8 = {kDLFloat8_e4m3fn, 8, 1};

// Shape, strides (elements) and place of a tensor in a block of bytes.
class Field {
 public:
  Field() = default;
  Field(DLDataType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset)
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)), offset_(offset) {}

  // Row-major, or with the dimensions laid out in the order `order`, outermost first. Every row of
  // the innermost gets `pad` more elements.
  static Field packed(DLDataType dtype, std::vector<int64_t> shape, int64_t offset,
                      std::vector<int> order = {}, int64_t pad = 0) {
    const int rank = static_cast<int>(shape.size());
    if (order.empty()) {
      for (int i = 0; i < rank; ++i) order.push_back(i);
    }
    std::vector<int64_t> strides(rank);
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[order[i]] = stride;
      stride *= shape[order[i]];
      if (i == rank - 1) stride += pad;
    }
    return {dtype, std::move(shape), std::move(strides), offset};
  }

  int64_t item_size() const { return dtype_.bits / 8; }
  int64_t size(int i) const { return shape_[i]; }
  const std::vector<int64_t>& strides() const { return strides_; }
  // Bytes from the field's first to past its last.
  int64_t span() const {
    int64_t last = 0;
    for (size_t i = 0; i < shape_.size(); ++i) last += (shape_[i] - 1) * std::abs(strides_[i]);
    if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return 0;
    return (last + 1) * item_size();
  }
  int64_t end() const { return offset_ + span(); }
  int64_t byte(std::initializer_list<int64_t> index) const {
    int64_t at = 0;
    int i = 0;
    for (int64_t n : index) at += n * strides_[i++];
    return offset_ + at * item_size();
  }

  // The view's shape and strides live in this object.
  DLTensor view(void* data) {
    DLTensor tensor{};
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(shape_.size());
    tensor.dtype = dtype_;
    tensor.shape = shape_.data();
    tensor.strides = strides_.data();
    tensor.byte_offset = static_cast<uint64_t>(offset_);
    return tensor;
  }

 private:
  DLDataType dtype_{};
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
};

// A tensor with its own memory; what is not an element holds 0xFF bytes (NaN in every type).
class Owned {
 public:
  Owned() = default;
  explicit Owned(Field field) : field(std::move(field)), bytes(this->field.end() + 8, 0xFF) {
    bind();
  }
  Owned(const Owned& other) : field(other.field), bytes(other.bytes) { bind(); }
  Owned& operator=(const Owned& other) {
    field = other.field;
    bytes = other.bytes;
    bind();
    return *this;
  }

  template <typename T>
  T get(std::initializer_list<int64_t> index) const {
    T value;
    std::memcpy(&value, bytes.data() + field.byte(index), sizeof(T));
    return value;
  }
  template <typename T>
  void set(std::initializer_list<int64_t> index, T value) {
    std::memcpy(bytes.data() + field.byte(index), &value, sizeof(T));
  }
  const float* row(std::initializer_list<int64_t> index) const {
    return reinterpret_cast<const float*>(bytes.data() + field.byte(index));
  }

  Field field;
  std::vector<uint8_t> bytes;
  DLTensor tensor{};

 private:
  void bind() { tensor = field.view(bytes.data()); }
};

// An element of a BF16, FP16 or FP32 tensor.
inline float read_float(const Owned& x, std::initializer_list<int64_t> index) {
  const DLDataType dtype = x.tensor.dtype;
  if (dtype.code == kDLBfloat) return bf16_to_float(x.get<Bf16>(index));
  if (dtype.bits == 16) return fp16_to_float(x.get<Fp16>(index));
  return x.get<float>(index);
}

inline void write_float(Owned& x, std::initializer_list<int64_t> index, float value) {
  const DLDataType dtype = x.tensor.dtype;
  if (dtype.code == kDLBfloat) {
    x.set(index, bf16_from_float(value));
  } else if (dtype.bits == 16) {
    x.set(index, fp16_from_float(value));
  } else {
    x.set(index, value);
  }
}

}  // namespace mpfa::internal
