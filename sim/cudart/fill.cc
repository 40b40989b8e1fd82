#include "sim/cudart/fill.h"

#include <cstring>

#include "sim/cudart/api.h"
#include "sim/cudart/copy.h"

namespace mpfa::sim::cudart {
namespace {

bool is_empty(const Fill& fill) { return fill.width == 0 || fill.height == 0 || fill.depth == 0; }

size_t span_of(const Fill& fill) {
  size_t rows = 0;
  size_t bytes = 0;
  size_t row_bytes = 0;
  const bool overflow = __builtin_mul_overflow(fill.rows_per_slice, fill.depth - 1, &rows) ||
                        __builtin_add_overflow(rows, fill.height - 1, &rows) ||
                        __builtin_mul_overflow(rows, fill.pitch, &bytes) ||
                        __builtin_mul_overflow(fill.width, fill.element_bytes, &row_bytes) ||
                        __builtin_add_overflow(bytes, row_bytes, &bytes);
  require(!overflow, cudaErrorInvalidValue, "the fill's extent is too large");
  return bytes;
}

}  // namespace

void check_fill(const Fill& fill) {
  require(fill.element_bytes == 1 || fill.element_bytes == 2 || fill.element_bytes == 4,
          cudaErrorInvalidValue, "elementSize = ", fill.element_bytes, ": must be 1, 2 or 4");
  if (is_empty(fill)) return;
  require(reinterpret_cast<uint64_t>(fill.start) % fill.element_bytes == 0, cudaErrorInvalidValue,
          "the destination is not aligned to the element size ", fill.element_bytes);
  check_device_range("the destination", fill.start, span_of(fill));
}

void run_fill(const Fill& fill) {
  if (is_empty(fill)) return;
  for (size_t slice = 0; slice < fill.depth; ++slice) {
    for (size_t row = 0; row < fill.height; ++row) {
      std::byte* to = fill.start + (slice * fill.rows_per_slice + row) * fill.pitch;
      if (fill.element_bytes == 1) {
        std::memset(to, static_cast<int>(fill.value & 0xFF), fill.width);
        continue;
      }
      for (size_t x = 0; x < fill.width; ++x) {
        std::memcpy(to + x * fill.element_bytes, &fill.value, fill.element_bytes);
      }
    }
  }
}

Fill fill_1d(void* start, int value, size_t bytes) {
  return fill_2d(start, bytes, value, bytes, 1);
}

Fill fill_2d(void* start, size_t pitch, int value, size_t width, size_t height) {
  return fill_3d({start, pitch, width, height}, value, {width, height, 1});
}

Fill fill_3d(const cudaPitchedPtr& memory, int value, const cudaExtent& extent) {
  require(extent.width <= memory.pitch, cudaErrorInvalidValue, "the pitch ", memory.pitch,
          " must be at least the width ", extent.width);
  require(extent.depth <= 1 || extent.height <= memory.ysize, cudaErrorInvalidValue, "ysize ",
          memory.ysize, " must be at least the height ", extent.height);
  Fill fill;
  fill.start = static_cast<std::byte*>(memory.ptr);
  fill.value = static_cast<uint32_t>(value);
  fill.pitch = memory.pitch;
  fill.rows_per_slice = memory.ysize;
  fill.width = extent.width;
  fill.height = extent.height;
  fill.depth = extent.depth;
  return fill;
}

Fill fill_of(const cudaMemsetParams& params) {
  Fill fill;
  fill.start = static_cast<std::byte*>(params.dst);
  fill.value = params.value;
  fill.element_bytes = params.elementSize;
  fill.pitch = params.pitch;
  fill.rows_per_slice = params.height;
  fill.width = params.width;
  fill.height = params.height;
  require(fill.height <= 1 || fill.width * fill.element_bytes <= fill.pitch, cudaErrorInvalidValue,
          "the pitch ", fill.pitch, " must be at least the width ",
          fill.width * fill.element_bytes);
  return fill;
}

cudaMemsetParams to_params(const Fill& fill) {
  cudaMemsetParams params{};
  params.dst = fill.start;
  params.pitch = fill.pitch;
  params.value = fill.value;
  params.elementSize = static_cast<unsigned>(fill.element_bytes);
  params.width = fill.width;
  params.height = fill.height;
  return params;
}

}  // namespace mpfa::sim::cudart
