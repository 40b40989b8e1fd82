// From checked tensors to the members of kernels' parameters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"
#include "kernels/any/append/params.h"

namespace mpfa::internal {

template <class T, int Rank>
std::byte* bytes_of(const Tensor<T, Rank>& tensor) {
  return reinterpret_cast<std::byte*>(tensor.at());
}

// Strides of [pages, heads, tokens, row].
template <class T>
kernels::PagedStrides strides_of(const Tensor<T, 4>& tensor) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  return {tensor.stride(0) * kSize, tensor.stride(1) * kSize, tensor.stride(2) * kSize};
}

// Of [pages, heads, inner]: a token of delta_s is an element; k_first has none.
inline kernels::PagedStrides strides_of(const Tensor<Bf16, 3>& tensor) {
  return {tensor.stride(0) * 2, tensor.stride(1) * 2, 2};
}

// The first strides, in elements; 0 where the tensor is absent.
template <class T, int Rank, size_t kCount>
void set_strides(int64_t (&strides)[kCount], const Tensor<T, Rank>& tensor) {
  static_assert(kCount <= static_cast<size_t>(Rank));
  for (size_t i = 0; i < kCount; ++i) strides[i] = tensor ? tensor.stride(static_cast<int>(i)) : 0;
}

inline kernels::InputType input_type(FloatType type) {
  switch (type) {
    case FloatType::kBf16:
      return kernels::InputType::kBf16;
    case FloatType::kFp16:
      return kernels::InputType::kFp16;
    default:
      return kernels::InputType::kFp32;
  }
}

}  // namespace mpfa::internal
