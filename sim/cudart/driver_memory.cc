// The driver's functions that allocate, copy and fill memory, and those that describe it.
#include "sim/cudart/copy.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/fill.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

// Unlike the runtime's, these three give no null pointer for 0 bytes.
CUresult mem_alloc(CUdeviceptr* address, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return forward([&] { return cudaMalloc(reinterpret_cast<void**>(address), bytes); });
}

CUresult mem_alloc_pitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                         unsigned /*element_bytes*/) {
  if (width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  return forward(
      [&] { return cudaMallocPitch(reinterpret_cast<void**>(address), pitch, width, height); });
}

CUresult mem_alloc_managed(CUdeviceptr* address, size_t bytes, unsigned flags) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return forward(
      [&] { return cudaMallocManaged(reinterpret_cast<void**>(address), bytes, flags); });
}

CUresult mem_get_address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return driver_call("cuMemGetAddressRange", [&] {
    const auto found = gpu().memory().find(address);
    require(found.has_value(), cudaErrorSymbolNotFound, to_pointer(address),
            " is in no allocation");
    if (base != nullptr) *base = found->address;
    if (bytes != nullptr) *bytes = found->bytes;
  });
}

CUresult pointer_get_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return driver_call("cuPointerGetAttribute", [&] {
    require_pointer(value, "data");
    const auto found = gpu().memory().find(address);
    require(found.has_value(), cudaErrorInvalidValue, "the pointer is to no allocation");
    const cudaMemoryType type = memory_type_of(*found);
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(value) = the_context();
        return;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(value) =
            type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *static_cast<CUdeviceptr*>(value) = address;
        return;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(value) = type == cudaMemoryTypeManaged ? 1 : 0;
        return;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(value) = 0;
        return;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(value) = found->address;
        return;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(value) = found->bytes;
        return;
      default:
        break;
    }
    fail(cudaErrorNotSupported, "attribute = ", static_cast<int>(attribute));
  });
}

// --- copies ---

CUresult copy_row(const char* name, void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                  CUstream stream) {
  return driver_call(name, [&] { issue_checked(stream, copy_1d(dst, src, bytes, kind)); });
}

CUresult memcpy_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return copy_row("cuMemcpyAsync", to_pointer(dst), to_pointer(src), bytes, cudaMemcpyDefault,
                  stream);
}

CUresult memcpy_to_device_async(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return copy_row("cuMemcpyHtoDAsync", to_pointer(dst), src, bytes, cudaMemcpyHostToDevice, stream);
}

CUresult memcpy_to_host_async(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return copy_row("cuMemcpyDtoHAsync", dst, to_pointer(src), bytes, cudaMemcpyDeviceToHost, stream);
}

CUresult memcpy_any(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return memcpy_async(dst, src, bytes, nullptr);
}

CUresult memcpy_to_device(CUdeviceptr dst, const void* src, size_t bytes) {
  return memcpy_to_device_async(dst, src, bytes, nullptr);
}

CUresult memcpy_to_host(void* dst, CUdeviceptr src, size_t bytes) {
  return memcpy_to_host_async(dst, src, bytes, nullptr);
}

// What one end of a CUDA_MEMCPY2D says.
struct End2d {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  size_t x;
  size_t y;
  size_t pitch;
};

void* start_of(const End2d& end) {
  require(end.type == CU_MEMORYTYPE_HOST || end.type == CU_MEMORYTYPE_DEVICE ||
              end.type == CU_MEMORYTYPE_UNIFIED,
          cudaErrorNotSupported, "a copy of memory type ", static_cast<int>(end.type),
          ": arrays are not simulated");
  auto* start = static_cast<std::byte*>(end.type == CU_MEMORYTYPE_HOST ? const_cast<void*>(end.host)
                                                                       : to_pointer(end.device));
  return start + end.y * end.pitch + end.x;
}

CUresult memcpy_2d_async(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return driver_call("cuMemcpy2D", [&] {
    require_pointer(copy, "pCopy");
    // A pitch of 0 means rows without gaps.
    const auto pitch_or = [&](size_t pitch) { return pitch != 0 ? pitch : copy->WidthInBytes; };
    const size_t dst_pitch = pitch_or(copy->dstPitch);
    const size_t src_pitch = pitch_or(copy->srcPitch);
    void* dst = start_of({copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes,
                          copy->dstY, dst_pitch});
    const void* src = start_of({copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                                copy->srcXInBytes, copy->srcY, src_pitch});
    issue_checked(stream, copy_2d(dst, dst_pitch, src, src_pitch, copy->WidthInBytes, copy->Height,
                                  cudaMemcpyDefault));
  });
}

CUresult memcpy_2d(const CUDA_MEMCPY2D* copy) { return memcpy_2d_async(copy, nullptr); }

// --- fills ---

template <typename Value>
CUresult memset_rows_async(CUdeviceptr address, size_t pitch, Value value, size_t width,
                           size_t height, CUstream stream) {
  return driver_call("cuMemset", [&] {
    Fill fill = fill_2d(to_pointer(address), pitch, 0, width, height);
    fill.value = value;
    fill.element_bytes = sizeof(Value);
    issue_checked(stream, fill);
  });
}

template <typename Value>
CUresult memset_rows(CUdeviceptr address, size_t pitch, Value value, size_t width, size_t height) {
  return memset_rows_async(address, pitch, value, width, height, nullptr);
}

template <typename Value>
CUresult memset_row_async(CUdeviceptr address, Value value, size_t count, CUstream stream) {
  return memset_rows_async(address, count * sizeof(Value), value, count, 1, stream);
}

template <typename Value>
CUresult memset_row(CUdeviceptr address, Value value, size_t count) {
  return memset_row_async(address, value, count, nullptr);
}

}  // namespace

std::span<const DriverFunction> memory_functions() {
  static const DriverFunction kAll[] = {
      entry<mem_alloc>("cuMemAlloc", 3020),
      entry<pointer_get_attribute>("cuPointerGetAttribute", 4000),
      entry<memcpy_async>("cuMemcpyAsync", 4000),
      entry<memcpy_async>("cuMemcpyDtoDAsync", 3020),
      entry<memcpy_to_device>("cuMemcpyHtoD", 3020),
      entry<memcpy_to_device_async>("cuMemcpyHtoDAsync", 3020),
      entry<memcpy_to_host>("cuMemcpyDtoH", 3020),
      entry<memcpy_to_host_async>("cuMemcpyDtoHAsync", 3020),
      entry<memset_row_async<uint8_t>>("cuMemsetD8Async", 3020),
      entry<memset_row_async<uint16_t>>("cuMemsetD16Async", 3020),
      entry<memset_row_async<uint32_t>>("cuMemsetD32Async", 3020),
      entry<mem_alloc_managed>("cuMemAllocManaged", 6000),
      entry<mem_alloc_pitch>("cuMemAllocPitch", 2000),
      entry<mem_get_address_range>("cuMemGetAddressRange", 2000),
      entry<memcpy_any>("cuMemcpy", 4000),
      entry<memcpy_any>("cuMemcpyDtoD", 2000),
      entry<memcpy_2d>("cuMemcpy2D", 2000),
      entry<memcpy_2d_async>("cuMemcpy2DAsync", 2000),
      entry<memcpy_2d>("cuMemcpy2DUnaligned", 2000),
      entry<memset_row<uint8_t>>("cuMemsetD8", 2000),
      entry<memset_row<uint16_t>>("cuMemsetD16", 2000),
      entry<memset_row<uint32_t>>("cuMemsetD32", 2000),
      entry<memset_rows<uint8_t>>("cuMemsetD2D8", 2000),
      entry<memset_rows<uint16_t>>("cuMemsetD2D16", 2000),
      entry<memset_rows<uint32_t>>("cuMemsetD2D32", 2000),
      entry<memset_rows_async<uint8_t>>("cuMemsetD2D8Async", 3020),
      entry<memset_rows_async<uint16_t>>("cuMemsetD2D16Async", 3020),
      entry<memset_rows_async<uint32_t>>("cuMemsetD2D32Async", 3020),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
