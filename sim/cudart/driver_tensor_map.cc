// The driver's functions that make tensor maps.
#include <algorithm>
#include <string>

#include "sim/cudart/driver_call.h"
#include "sim/tensor_map/encode.h"

namespace mpfa::sim::cudart {
namespace {

EncodeArguments encode_arguments(CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dim, const cuuint64_t* strides,
                                 const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  EncodeArguments arguments;
  arguments.data_type = static_cast<uint32_t>(type);
  arguments.rank = rank;
  arguments.global_address = reinterpret_cast<uint64_t>(address);
  arguments.global_dim = dim;
  arguments.global_strides = strides;
  arguments.element_strides = element_strides;
  arguments.interleave = static_cast<uint32_t>(interleave);
  arguments.swizzle = static_cast<uint32_t>(swizzle);
  arguments.l2_promotion = static_cast<uint32_t>(promotion);
  arguments.oob_fill = static_cast<uint32_t>(fill);
  return arguments;
}

CUresult tensor_map_encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dim, const cuuint64_t* strides,
                                 const cuuint32_t* box, const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return driver_call("cuTensorMapEncodeTiled", [&] {
    const std::string problem =
        encode_tiled(map,
                     encode_arguments(type, rank, address, dim, strides, element_strides,
                                      interleave, swizzle, promotion, fill),
                     box);
    require(problem.empty(), cudaErrorInvalidValue, problem);
  });
}

CUresult tensor_map_encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* dim, const cuuint64_t* strides,
                                  const int* lower_corner, const int* upper_corner,
                                  cuuint32_t channels, cuuint32_t pixels,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return driver_call("cuTensorMapEncodeIm2col", [&] {
    const std::string problem =
        encode_im2col(map,
                      encode_arguments(type, rank, address, dim, strides, element_strides,
                                       interleave, swizzle, promotion, fill),
                      {lower_corner, upper_corner, channels, pixels});
    require(problem.empty(), cudaErrorInvalidValue, problem);
  });
}

CUresult tensor_map_replace_address(CUtensorMap* map, void* address) {
  return driver_call("cuTensorMapReplaceAddress", [&] {
    require_pointer(map, "tensorMap");
    TensorMap changed = decode_tensor_map(map);
    changed.global_address = reinterpret_cast<uint64_t>(address);
    const std::string problem = check(changed);
    require(problem.empty(), cudaErrorInvalidValue, problem);
    const TensorMapBytes bytes = encode(changed);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(map));
  });
}

}  // namespace

std::span<const DriverFunction> tensor_map_functions() {
  static const DriverFunction kAll[] = {
      entry<tensor_map_encode_tiled>("cuTensorMapEncodeTiled", 12000),
      entry<tensor_map_encode_im2col>("cuTensorMapEncodeIm2col", 12000),
      entry<tensor_map_replace_address>("cuTensorMapReplaceAddress", 12000),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
