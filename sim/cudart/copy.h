// Copies of boxes of bytes, which all of cudaMemcpy*'s forms are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace mpfa::sim::cudart {

// One end of a copy: `height` rows of a slice, whether or not all of them are copied.
struct CopyEnd {
  std::byte* start = nullptr;  // of the box
  size_t pitch = 0;            // bytes from a row to the next
  size_t height = 1;           // rows from a slice to the next
};

struct Copy {
  CopyEnd dst;
  CopyEnd src;
  size_t width = 0;  // bytes
  size_t height = 1;
  size_t depth = 1;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};

// Throws ApiError as the real runtime fails: for a kind that is none, for what is not the device's
// where the kind says so, for a range that leaves its allocation.
void check_copy(const Copy& copy);
// Copies. The ranges may overlap only if there is one row.
void run_copy(const Copy& copy);

Copy copy_1d(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind);
Copy copy_2d(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
             size_t height, cudaMemcpyKind kind);
// Throws ApiError for arrays, which are not simulated.
Copy copy_3d(const cudaMemcpy3DParms& params);
// The inverse, for cudaGraphMemcpyNodeGetParams.
cudaMemcpy3DParms to_params(const Copy& copy);

// Throws ApiError unless `bytes` bytes from `address` are memory that kernels reach.
void check_device_range(const char* what, const void* address, size_t bytes);

}  // namespace mpfa::sim::cudart
