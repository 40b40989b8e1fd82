// Views of memory as DLPack tensors, for callers whose tensors are pointers, vectors or parts of
// other tensors. Nothing here copies or owns elements; all of it is host code.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "mpfa/check.h"
#include "mpfa/formats.h"

namespace mpfa {

// DLPack's name of an element type: Bf16, Fp16, float, E4m3, uint8_t, int32_t or int64_t.
template <typename T>
constexpr DLDataType dtype_of() {
  constexpr uint8_t kBits = 8 * sizeof(T);
  if constexpr (std::is_same_v<T, Bf16>) {
    return {kDLBfloat, kBits, 1};
  } else if constexpr (std::is_same_v<T, E4m3>) {
    return {kDLFloat8_e4m3fn, kBits, 1};
  } else if constexpr (std::is_same_v<T, Fp16> || std::is_same_v<T, float>) {
    return {kDLFloat, kBits, 1};
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return {kDLUInt, kBits, 1};
  } else {
    static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>,
                  "T must be one of the element types that the library's tensors have");
    return {kDLInt, kBits, 1};
  }
}

namespace internal {

// A container whose elements lie side by side and outlive the expression that names it. Arrays are
// taken as pointers.
template <typename T>
concept ContiguousValues = std::ranges::contiguous_range<T> && std::ranges::borrowed_range<T> &&
    !std::is_array_v<std::remove_reference_t<T>>;

}  // namespace internal

// A tensor made of a pointer, a type and a shape. It is a DLTensor that keeps its shape and strides
// in itself, so it can be passed wherever the library takes a `const DLTensor&` or, as &view, a
// `const DLTensor*`, and it can be copied, moved, returned and kept:
//
//   std::vector<mpfa::Bf16> q_values(rows * 32 * 128);
//   const mpfa::TensorView q(q_values, {rows, 32, 128});
//
// The elements stay the caller's and must outlive every use of the view. A view does not know
// const: the library writes only to what a function documents as its output. Shapes, types and
// devices are checked by the function that takes the view. `shape` and `strides` must not be
// pointed elsewhere, and a plain DLTensor copied from a view is valid as long as that view.
class TensorView : public DLTensor {
 public:
  static constexpr int kMaxRank = 8;

  // Of rank 0 and without data.
  TensorView() : TensorView(nullptr, {kDLFloat, 32, 1}, {}) {}

  // The general form, for any device. Strides count elements; none means compact row-major. Throws
  // InvalidArgument above kMaxRank dimensions, for a negative extent or 2^63 elements, and where
  // there are not as many strides as extents.
  TensorView(void* data, DLDataType dtype, std::span<const int64_t> shape,
             std::span<const int64_t> strides = {}, DLDevice device = {kDLCPU, 0})
      : DLTensor{data, device, 0, dtype, nullptr, nullptr, 0} {
    MPFA_CHECK(shape.size() <= kMaxRank, "shape has ", shape.size(),
               " dimensions: must have at most ", kMaxRank);
    MPFA_CHECK(strides.empty() || strides.size() == shape.size(), "strides has ", strides.size(),
               " elements: must have as many as shape, ", shape.size(), ", or none");
    ndim = static_cast<int32_t>(shape.size());
    int64_t compact = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      MPFA_CHECK(shape[i] >= 0, "shape[", i, "] = ", shape[i], ": must not be negative");
      extents_[i] = shape[i];
      steps_[i] = strides.empty() ? compact : strides[i];
      MPFA_CHECK(!__builtin_mul_overflow(compact, std::max<int64_t>(shape[i], 1), &compact),
                 "shape[", i, "] = ", shape[i], ": a tensor must have fewer than 2^63 elements");
    }
    point_to_own_storage();
  }

  // Host memory at a typed pointer.
  template <typename T>
  TensorView(T* data, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides = {})
      : TensorView(const_cast<std::remove_const_t<T>*>(data), dtype_of<std::remove_const_t<T>>(),
                   span_of(shape), span_of(strides)) {}

  // All elements of a vector, std::array or span, compact row-major. Throws InvalidArgument unless
  // it holds as many elements as the shape.
  template <internal::ContiguousValues Range>
  TensorView(Range&& values, std::initializer_list<int64_t> shape)
      : TensorView(std::ranges::data(values), shape) {
    const auto size = static_cast<int64_t>(std::ranges::size(values));
    MPFA_CHECK(size == elements(), "values has ", size, " elements: must have ", elements(),
               ", as many as its shape");
  }

  // The same elements as another tensor, with its shape and strides copied in.
  explicit TensorView(const DLTensor& tensor)
      : TensorView(tensor.data, tensor.dtype, {tensor.shape, static_cast<size_t>(tensor.ndim)},
                   {tensor.strides, tensor.strides ? static_cast<size_t>(tensor.ndim) : 0},
                   tensor.device) {
    byte_offset = tensor.byte_offset;
  }

  TensorView(const TensorView& other)
      : DLTensor(other), extents_(other.extents_), steps_(other.steps_) {
    point_to_own_storage();
  }
  TensorView& operator=(const TensorView& other) {
    DLTensor::operator=(other);
    extents_ = other.extents_;
    steps_ = other.steps_;
    point_to_own_storage();
    return *this;
  }

  int64_t size(int dim) const { return extents_[checked(dim)]; }
  int64_t stride(int dim) const { return steps_[checked(dim)]; }
  // The product of all extents.
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= size(i);
    return n;
  }

  // Indices [begin, end) of one dimension. Throws InvalidArgument where they are not all there.
  TensorView slice(int dim, int64_t begin, int64_t end) const {
    MPFA_CHECK(0 <= begin && begin <= end && end <= size(dim), "slice [", begin, ", ", end,
               ") of dimension ", dim, ": must lie within its ", size(dim), " indices");
    TensorView part = *this;
    part.extents_[checked(dim)] = end - begin;
    if (data != nullptr) {
      const int64_t element_bytes = (dtype.bits * dtype.lanes + 7) / 8;
      part.data = static_cast<std::byte*>(data) + begin * stride(dim) * element_bytes;
    }
    return part;
  }

  // Index `index` of the first dimension, which the result lacks: [a, b, c] gives [b, c].
  TensorView row(int64_t index) const {
    MPFA_CHECK(ndim >= 1 && 0 <= index && index < size(0), "row ", index,
               " of a tensor: must be one of the ", ndim >= 1 ? size(0) : 0, " it has");
    TensorView part = slice(0, index, index + 1);
    std::copy(part.extents_.begin() + 1, part.extents_.end(), part.extents_.begin());
    std::copy(part.steps_.begin() + 1, part.steps_.end(), part.steps_.begin());
    --part.ndim;
    return part;
  }

  // The same elements with two dimensions exchanged.
  TensorView transposed(int dim0, int dim1) const {
    TensorView result = *this;
    std::swap(result.extents_[checked(dim0)], result.extents_[checked(dim1)]);
    std::swap(result.steps_[checked(dim0)], result.steps_[checked(dim1)]);
    return result;
  }

 private:
  static std::span<const int64_t> span_of(std::initializer_list<int64_t> list) {
    return {list.begin(), list.size()};
  }
  size_t checked(int dim) const {
    MPFA_CHECK(0 <= dim && dim < ndim, "dimension ", dim, ": must be one of the ", ndim,
               " that the tensor has");
    return static_cast<size_t>(dim);
  }
  void point_to_own_storage() {
    shape = extents_.data();
    strides = steps_.data();
  }

  std::array<int64_t, kMaxRank> extents_{};
  std::array<int64_t, kMaxRank> steps_{};
};

// Row `index` of any tensor, without its first dimension. This is how one set of a cache's
// statistics is reached, [stats, Hkv, d] giving the [Hkv, d] that calibrate() fills:
//
//   const auto k_mean = mpfa::row_of(*cache.view().stats.k_mean, 0);
//   mpfa::calibrate(q, k, {.k_mean = &k_mean});
inline TensorView row_of(const DLTensor& tensor, int64_t index) {
  return TensorView(tensor).row(index);
}

// The first element of a tensor in host memory, typed: data_as<int32_t>(*cache.seq_lens())[0] = n.
// Throws InvalidArgument where the elements are not T or not in host memory. Strides are the
// caller's to follow.
template <typename T>
T* data_as(const DLTensor& tensor) {
  using Element = std::remove_const_t<T>;
  constexpr DLDataType kExpected = dtype_of<Element>();
  const DLDataType dtype = tensor.dtype;
  MPFA_CHECK(dtype.code == kExpected.code && dtype.bits == kExpected.bits && dtype.lanes == 1,
             "the tensor's DLPack type has code ", static_cast<int>(dtype.code), ", ",
             static_cast<int>(dtype.bits), " bits and ", dtype.lanes, " lanes: must have code ",
             static_cast<int>(kExpected.code), ", ", static_cast<int>(kExpected.bits),
             " bits, 1 lane");
  const DLDeviceType device = tensor.device.device_type;
  MPFA_CHECK(device == kDLCPU || device == kDLCUDAHost || device == kDLCUDAManaged,
             "the tensor lies on DLPack device type ", static_cast<int>(device),
             ": must be in host memory");
  if (tensor.data == nullptr) return nullptr;
  return reinterpret_cast<Element*>(static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
}

}  // namespace mpfa
