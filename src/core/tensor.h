// Typed, checked access to DLPack tensors: every public function turns its DLTensors into Tensor<T,
// Rank> first, and all its errors name the argument.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "mpfa/check.h"
#include "mpfa/formats.h"

namespace mpfa::internal {

// "[2, 8, 64]"
std::string shape_string(const DLTensor& tensor);
// "bfloat16", "float8_e4m3fn", "int32", ...
std::string dtype_string(DLDataType dtype);

// Input types of activations (q, k, v, out).
enum class FloatType : uint8_t { kBf16, kFp16, kFp32 };
FloatType float_type(const DLTensor& tensor, std::string_view name);
size_t float_type_size(FloatType type);

// Whether `dtype` may be read as T. E4m3 also accepts uint8, and uint8 (packed e2m1 pairs) accepts
// float4_e2m1fn with two lanes.
template <typename T>
bool dtype_matches(DLDataType dtype);
template <typename T>
const char* dtype_expected();

// Checks that `tensor` is a CPU tensor of rank `ndim` with a data pointer (unless it is empty),
// and that its innermost dimension is contiguous where `inner_contiguous`.
void check_layout(const DLTensor& tensor, std::string_view name, int ndim, bool inner_contiguous);

// Stride of dimension i in elements; a null DLTensor::strides means compact row-major.
int64_t stride_of(const DLTensor& tensor, int i);

inline std::byte* data_of(const DLTensor& tensor) {
  if (tensor.data == nullptr) return nullptr;  // an empty tensor
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

// Checks that data_of(tensor) may be read as elements of `size` bytes. Strides count elements, so
// that all others are aligned too.
void check_alignment(const DLTensor& tensor, std::string_view name, size_t size);

// A non-owning strided array. Offsets are 64-bit; the innermost stride is free only where the
// tensor was made with inner_contiguous = false.
template <typename T, int Rank>
class Tensor {
 public:
  Tensor() = default;

  int64_t size(int i) const { return shape_[i]; }
  int64_t stride(int i) const { return strides_[i]; }
  const std::array<int64_t, Rank>& shape() const { return shape_; }
  bool empty() const {
    for (int64_t n : shape_) {
      if (n == 0) return true;
    }
    return false;
  }
  // True where an optional tensor was given.
  explicit operator bool() const { return present_; }

  // Address of an element, or of the start of a row where trailing indices are left out.
  template <typename... Index>
  T* at(Index... index) const {
    static_assert(sizeof...(Index) <= Rank);
    int64_t offset = 0;
    int dim = 0;
    ((offset += static_cast<int64_t>(index) * strides_[dim++]), ...);
    return data_ + offset;
  }

  static Tensor from(const DLTensor& tensor, std::string_view name, bool inner_contiguous = true) {
    MPFA_CHECK(dtype_matches<T>(tensor.dtype), name, " has type ", dtype_string(tensor.dtype),
               ": must be ", dtype_expected<T>());
    const Tensor result = untyped(tensor, name, inner_contiguous);
    check_alignment(tensor, name, alignof(T));
    return result;
  }
  // Null gives an absent tensor.
  static Tensor from(const DLTensor* tensor, std::string_view name, bool inner_contiguous = true) {
    return tensor == nullptr ? Tensor{} : from(*tensor, name, inner_contiguous);
  }
  // Without looking at type and alignment: for bytes.
  static Tensor untyped(const DLTensor& tensor, std::string_view name,
                        bool inner_contiguous = true) {
    check_layout(tensor, name, Rank, inner_contiguous);
    Tensor result;
    result.data_ = reinterpret_cast<T*>(data_of(tensor));
    for (int i = 0; i < Rank; ++i) {
      result.shape_[i] = tensor.shape[i];
      result.strides_[i] = stride_of(tensor, i);
    }
    result.present_ = true;
    return result;
  }

 private:
  T* data_ = nullptr;
  std::array<int64_t, Rank> shape_{};
  std::array<int64_t, Rank> strides_{};
  bool present_ = false;
};

// Checks one dimension of a tensor against what other arguments demand.
void check_size(const DLTensor& tensor, std::string_view name, int dim, int64_t expected,
                std::string_view why);

// Calls fn(Bf16{} | Fp16{} | float{}): the argument's type is the run-time type's.
template <typename Fn>
decltype(auto) visit_float_type(FloatType type, Fn&& fn) {
  switch (type) {
    case FloatType::kBf16:
      return fn(Bf16{});
    case FloatType::kFp16:
      return fn(Fp16{});
    default:
      return fn(float{});
  }
}

// Calls fn(Tensor<Bf16 | Fp16 | float, Rank>) by the tensor's run-time type.
template <int Rank, typename Fn>
decltype(auto) visit_float_tensor(const DLTensor& tensor, std::string_view name, Fn&& fn) {
  return visit_float_type(float_type(tensor, name), [&](auto element) -> decltype(auto) {
    return fn(Tensor<decltype(element), Rank>::from(tensor, name));
  });
}

inline float to_float(Bf16 x) { return bf16_to_float(x); }
inline float to_float(Fp16 x) { return fp16_to_float(x); }
inline float to_float(float x) { return x; }

template <typename T>
T from_float(float x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return bf16_from_float(x);
  } else if constexpr (std::is_same_v<T, Fp16>) {
    return fp16_from_float(x);
  } else {
    return x;
  }
}

// b of cu_seqlens [b + 1], whose values may be anything. Errors where it is empty.
int64_t count_sequences(const Tensor<int32_t, 1>& cu_seqlens, std::string_view name);

// cu_seqlens [b + 1]: first 0, non-decreasing, last <= total. Returns b.
int64_t check_cu_seqlens(const Tensor<int32_t, 1>& cu_seqlens, std::string_view name,
                         int64_t total);

}  // namespace mpfa::internal
