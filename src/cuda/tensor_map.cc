#include "cuda/tensor_map.h"

#include <cuda.h>

#include <algorithm>
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

// A dimension of one element has a stride that nobody uses; the driver checks it all the same.
cuuint64_t usable_stride(const Tensor<E4m3, 4>& tensor, int dim) {
  return tensor.size(dim) > 1 ? static_cast<cuuint64_t>(tensor.stride(dim)) : cuuint64_t{16};
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

void encode_tensor_map(const Tensor<E4m3, 4>& tensor, int tokens, std::byte* map) {
  static const Encode encode = find_encode();
  const auto row = static_cast<cuuint64_t>(tensor.size(3));
  const cuuint64_t sizes[] = {row, static_cast<cuuint64_t>(tensor.size(2)),
                              static_cast<cuuint64_t>(tensor.size(1)),
                              static_cast<cuuint64_t>(tensor.size(0))};
  const cuuint64_t strides[] = {usable_stride(tensor, 2), usable_stride(tensor, 1),
                                usable_stride(tensor, 0)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(row), static_cast<cuuint32_t>(tokens), 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap encoded;
  const CUresult result =
      encode(&encoded, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, tensor.at(), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             row == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw CudaError(
        str_cat("cuTensorMapEncodeTiled for the cache's v: CUresult ", static_cast<int>(result)));
  }
  std::memcpy(map, &encoded, sizeof(encoded));
}

}  // namespace mpfa::internal
