// Tensor maps for the copy engine of sm_90 and later.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace mpfa::internal {

// Whether pages of `tensor` ([pages, Hkv, page_size, row bytes]) can have a tensor map: addresses
// and strides that are multiples of 16 bytes.
bool fits_tensor_map(const Tensor<E4m3, 4>& tensor);

// Writes the CUtensorMap (128 bytes, aligned to 64) of tiles of `tokens` tokens of a page and head,
// their rows swizzled. Errors: CudaError.
void encode_tensor_map(const Tensor<E4m3, 4>& tensor, int tokens, std::byte* map);

}  // namespace mpfa::internal
