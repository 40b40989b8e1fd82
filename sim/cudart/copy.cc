#include "sim/cudart/copy.h"

#include <cstring>
#include <limits>
#include <optional>

#include "sim/cudart/api.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

bool is_empty(const Copy& copy) { return copy.width == 0 || copy.height == 0 || copy.depth == 0; }

// Bytes from an end's first to its last.
size_t span_of(const CopyEnd& end, const Copy& copy) {
  size_t rows = 0;
  size_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(end.height, copy.depth - 1, &rows) ||
                        __builtin_add_overflow(rows, copy.height - 1, &rows) ||
                        __builtin_mul_overflow(rows, end.pitch, &bytes) ||
                        __builtin_add_overflow(bytes, copy.width, &bytes);
  require(!overflow, cudaErrorInvalidValue, "the copy's extent is too large: ", copy.width, " x ",
          copy.height, " x ", copy.depth);
  return bytes;
}

void check_end(const char* what, const CopyEnd& end, const Copy& copy, bool must_be_device) {
  const size_t bytes = span_of(end, copy);
  require(end.start != nullptr, cudaErrorInvalidValue, what, " is null");
  const GlobalMemory& memory = gpu().memory();
  const auto address = reinterpret_cast<uint64_t>(end.start);
  if (must_be_device || memory.owns(address) || memory.find(address)) {
    check_device_range(what, end.start, bytes);
  }
}

}  // namespace

void check_device_range(const char* what, const void* address, size_t bytes) {
  const auto at = reinterpret_cast<uint64_t>(address);
  const std::optional<Allocation> allocation = gpu().memory().find(at);
  require(allocation.has_value(), cudaErrorInvalidValue, what, " ", address,
          " is in no allocation of the device");
  require(allocation->contains(at, bytes), cudaErrorInvalidValue, what, " ", address, " and ",
          bytes, " bytes leave their allocation, which has ", allocation->bytes, " bytes at ",
          reinterpret_cast<const void*>(allocation->address));
}

void check_copy(const Copy& copy) {
  require(copy.kind >= cudaMemcpyHostToHost && copy.kind <= cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection, "kind = ", static_cast<int>(copy.kind),
          ": must be from 0 to 4");
  if (is_empty(copy)) return;
  // Where the kind says host, an address of the device will do as well: addresses are unified.
  const bool to_device =
      copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  check_end("the destination", copy.dst, copy, to_device);
  check_end("the source", copy.src, copy, from_device);
}

void run_copy(const Copy& copy) {
  if (is_empty(copy)) return;
  for (size_t slice = 0; slice < copy.depth; ++slice) {
    for (size_t row = 0; row < copy.height; ++row) {
      std::byte* to = copy.dst.start + (slice * copy.dst.height + row) * copy.dst.pitch;
      const std::byte* from = copy.src.start + (slice * copy.src.height + row) * copy.src.pitch;
      std::memmove(to, from, copy.width);
    }
  }
}

Copy copy_1d(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return copy_2d(dst, bytes, src, bytes, bytes, 1, kind);
}

Copy copy_2d(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
             size_t height, cudaMemcpyKind kind) {
  require(height <= 1 || (width <= dst_pitch && width <= src_pitch), cudaErrorInvalidPitchValue,
          "the pitches ", dst_pitch, " and ", src_pitch, " must be at least the width ", width);
  Copy copy;
  copy.dst = {static_cast<std::byte*>(dst), dst_pitch, height};
  copy.src = {static_cast<std::byte*>(const_cast<void*>(src)), src_pitch, height};
  copy.width = width;
  copy.height = height;
  copy.kind = kind;
  return copy;
}

namespace {

CopyEnd end_3d(const cudaPitchedPtr& memory, const cudaPos& position, const cudaExtent& extent) {
  // One row of one slice needs no pitch, one slice no height.
  const bool one_slice = extent.depth <= 1;
  const bool one_row = one_slice && extent.height <= 1;
  require(one_row || extent.width <= memory.pitch, cudaErrorInvalidPitchValue, "the pitch ",
          memory.pitch, " must be at least the width ", extent.width);
  require(one_slice || extent.height <= memory.ysize, cudaErrorInvalidPitchValue, "ysize ",
          memory.ysize, " must be at least the height ", extent.height);
  require(one_row || position.x <= memory.pitch - extent.width, cudaErrorInvalidValue,
          "x + width = ", position.x + extent.width, " must not exceed the pitch ", memory.pitch);
  require(one_slice || position.y <= memory.ysize - extent.height, cudaErrorInvalidValue,
          "y + height = ", position.y + extent.height, " must not exceed ysize ", memory.ysize);
  const size_t offset = (position.z * memory.ysize + position.y) * memory.pitch + position.x;
  return {static_cast<std::byte*>(memory.ptr) + offset, memory.pitch, memory.ysize};
}

}  // namespace

Copy copy_3d(const cudaMemcpy3DParms& params) {
  require(params.srcArray == nullptr && params.dstArray == nullptr, cudaErrorNotSupported,
          "CUDA arrays are not simulated");
  Copy copy;
  copy.width = params.extent.width;
  copy.height = params.extent.height;
  copy.depth = params.extent.depth;
  copy.kind = params.kind;
  if (is_empty(copy)) return copy;
  require(params.dstPtr.ptr != nullptr && params.srcPtr.ptr != nullptr, cudaErrorInvalidValue,
          "the copy's source or destination is null");
  copy.dst = end_3d(params.dstPtr, params.dstPos, params.extent);
  copy.src = end_3d(params.srcPtr, params.srcPos, params.extent);
  return copy;
}

cudaMemcpy3DParms to_params(const Copy& copy) {
  cudaMemcpy3DParms params{};
  params.dstPtr = {copy.dst.start, copy.dst.pitch, copy.dst.pitch, copy.dst.height};
  params.srcPtr = {copy.src.start, copy.src.pitch, copy.src.pitch, copy.src.height};
  params.extent = {copy.width, copy.height, copy.depth};
  params.kind = copy.kind;
  return params;
}

}  // namespace mpfa::sim::cudart
