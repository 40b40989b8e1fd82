// Fills of boxes of elements, which all of cudaMemset*'s forms are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mpfa::sim::cudart {

struct Fill {
  std::byte* start = nullptr;
  uint32_t value = 0;
  size_t element_bytes = 1;  // 1, 2 or 4
  size_t pitch = 0;          // bytes from a row to the next
  size_t rows_per_slice = 1;
  size_t width = 0;  // elements
  size_t height = 1;
  size_t depth = 1;
};

// Throws ApiError for an element size that is none, or a range that leaves its allocation.
void check_fill(const Fill& fill);
void run_fill(const Fill& fill);

Fill fill_1d(void* start, int value, size_t bytes);
Fill fill_2d(void* start, size_t pitch, int value, size_t width, size_t height);
Fill fill_3d(const cudaPitchedPtr& memory, int value, const cudaExtent& extent);
Fill fill_of(const cudaMemsetParams& params);
cudaMemsetParams to_params(const Fill& fill);

}  // namespace mpfa::sim::cudart
