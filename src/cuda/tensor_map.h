// Tensor maps for the copy engine of sm_90 and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace mpfa::internal {

// Whether pages of `tensor` ([pages, Hkv, page_size, row bytes]) can have a tensor map: addresses
// and strides that are multiples of 16 bytes.
bool fits_tensor_map(const Tensor<E4m3, 4>& tensor);

// Writes the CUtensorMap (128 bytes, aligned to 64) of tiles of `tokens` tokens of a page and head,
// their rows swizzled. Errors: CudaError.
void encode_tensor_map(const Tensor<E4m3, 4>& tensor, int tokens, std::byte* map);

// A dimension of a tensor in memory, and how much of it a tile has.
struct TiledDim {
  int64_t size = 1;
  int64_t stride_bytes = 16;  // of the innermost dimension: not used
  int64_t tile = 1;
};

enum class MapElement { kByte, kFp16 };

// Writes the CUtensorMap of tiles of a tensor, innermost dimension first, of which a tile has 32,
// 64 or 128 bytes; tiles are swizzled over as many. `l2_bytes`, 64 or 256: what a miss of the L2
// cache reads. `name` is for messages. Errors: CudaError.
void encode_tiles(const char* name, const void* data, MapElement element,
                  std::span<const TiledDim> dims, int l2_bytes, std::byte* map);

}  // namespace mpfa::internal
