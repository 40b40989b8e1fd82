#include "cuda/tensor_map.h"

#include <cuda.h>

#include <cstring>

#include "cuda/device.h"

namespace mpfa::internal {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, by way of the runtime: programs need not be linked with the driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &result),
             "cudaGetDriverEntryPointByVersion(cuTensorMapEncodeTiled)");
  if (result != cudaDriverEntryPointSuccess) {
    throw CudaError("the CUDA driver has no cuTensorMapEncodeTiled: it must be 12.0 or later");
  }
  return reinterpret_cast<Encode>(function);
}

constexpr size_t kMaxDims = 5;

CUtensorMapSwizzle swizzle_over(int64_t bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
}

// A dimension of one element has a stride that nobody uses; the driver checks it all the same.
int64_t usable_stride(const Tensor<E4m3, 4>& tensor, int dim) {
  return tensor.size(dim) > 1 ? tensor.stride(dim) : 16;
}

}  // namespace

bool fits_tensor_map(const Tensor<E4m3, 4>& tensor) {
  bool fits = reinterpret_cast<uintptr_t>(tensor.at()) % 16 == 0;
  for (int dim = 0; dim < 3; ++dim) {
    const int64_t stride = tensor.stride(dim);
    const bool in_range = stride > 0 && stride % 16 == 0 && stride < int64_t{1} << 40;
    fits = fits && (tensor.size(dim) <= 1 || in_range);
    fits = fits && tensor.size(dim) >= 1 && tensor.size(dim) <= int64_t{1} << 31;
  }
  return fits;
}

void encode_tiles(const char* name, const void* data, MapElement element,
                  std::span<const TiledDim> dims, int l2_bytes, std::byte* map) {
  static const Encode encode = find_encode();
  const bool is_byte = element == MapElement::kByte;
  cuuint64_t sizes[kMaxDims] = {};
  cuuint64_t strides[kMaxDims] = {};  // of all dimensions but the innermost
  cuuint32_t box[kMaxDims] = {};
  cuuint32_t steps[kMaxDims] = {};
  for (size_t i = 0; i < dims.size(); ++i) {
    sizes[i] = static_cast<cuuint64_t>(dims[i].size);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(dims[i].stride_bytes);
    box[i] = static_cast<cuuint32_t>(dims[i].tile);
    steps[i] = 1;
  }
  CUtensorMap encoded;
  const CUresult result = encode(
      &encoded, is_byte ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      static_cast<cuuint32_t>(dims.size()), const_cast<void*>(data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_over(dims[0].tile * (is_byte ? 1 : 2)),
      l2_bytes == 64 ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw CudaError(
        str_cat("cuTensorMapEncodeTiled for ", name, ": CUresult ", static_cast<int>(result)));
  }
  std::memcpy(map, &encoded, sizeof(encoded));
}

void encode_tensor_map(const Tensor<E4m3, 4>& tensor, int tokens, std::byte* map) {
  const int64_t row = tensor.size(3);
  const TiledDim dims[] = {{row, 0, row},
                           {tensor.size(2), usable_stride(tensor, 2), tokens},
                           {tensor.size(1), usable_stride(tensor, 1), 1},
                           {tensor.size(0), usable_stride(tensor, 0), 1}};
  encode_tiles("the cache's v", tensor.at(), MapElement::kByte, dims, 64, map);
}

}  // namespace mpfa::internal
