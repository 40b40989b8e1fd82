// cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col: the checks that the CUDA driver API
// documents, and the map that they make.
#pragma once

#include <cstdint>
#include <string>

#include "sim/tensor_map/tensor_map.h"

namespace mpfa::sim {

// The driver API's arguments that both functions have; enums by their value there.
struct EncodeArguments {
  uint32_t data_type = 0;  // CUtensorMapDataType
  uint32_t rank = 0;
  uint64_t global_address = 0;
  const uint64_t* global_dim = nullptr;       // [rank]
  const uint64_t* global_strides = nullptr;   // [rank - 1], bytes
  const uint32_t* element_strides = nullptr;  // [rank]
  uint32_t interleave = 0;
  uint32_t swizzle = 0;
  uint32_t l2_promotion = 0;
  uint32_t oob_fill = 0;
};

// The driver's description writes the corners {D, H, W}; its arrays are innermost first, as W, H, D
// (as CUTLASS fills them, and as an H200 reads them).
struct Im2colArguments {
  const int* pixel_box_lower_corner = nullptr;  // [rank - 2]
  const int* pixel_box_upper_corner = nullptr;  // [rank - 2]
  uint32_t channels_per_pixel = 0;
  uint32_t pixels_per_column = 0;
};

// Both write a map to `tensor_map` and return "", or write nothing and return what is wrong
// (CUDA_ERROR_INVALID_VALUE): the argument's name, its value and the rule.
std::string encode_tiled(void* tensor_map, const EncodeArguments& arguments,
                         const uint32_t* box_dim);
std::string encode_im2col(void* tensor_map, const EncodeArguments& arguments,
                          const Im2colArguments& im2col);

// The same rules for a map whose fields tensormap.replace may have changed: "" if a copy may use
// it.
std::string check(const TensorMap& map);

}  // namespace mpfa::sim
