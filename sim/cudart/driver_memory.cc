// The driver's functions that copy and fill memory at once or in rows, and those that describe it.
#include "sim/cudart/copy.h"
#include "sim/cudart/driver_call.h"
#include "sim/cudart/fill.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

CUresult mem_alloc_pitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                         unsigned /*element_bytes*/) {
  const cudaError_t before = peek_last_error();
  return forward(cudaMallocPitch(reinterpret_cast<void**>(address), pitch, width, height), before);
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

// --- copies ---

CUresult memcpy_any(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  const cudaError_t before = peek_last_error();
  return forward(cudaMemcpy(to_pointer(dst), to_pointer(src), bytes, cudaMemcpyDefault), before);
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
    const Copy work = copy_2d(dst, dst_pitch, src, src_pitch, copy->WidthInBytes, copy->Height,
                              cudaMemcpyDefault);
    check_copy(work);
    issue(stream, work);
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
    check_fill(fill);
    issue(stream, fill);
  });
}

template <typename Value>
CUresult memset_rows(CUdeviceptr address, size_t pitch, Value value, size_t width, size_t height) {
  return memset_rows_async(address, pitch, value, width, height, nullptr);
}

template <typename Value>
CUresult memset_row(CUdeviceptr address, Value value, size_t count) {
  return memset_rows_async(address, count * sizeof(Value), value, count, 1, nullptr);
}

}  // namespace

std::span<const DriverFunction> memory_functions() {
  static const DriverFunction kAll[] = {
      entry("cuMemAllocPitch", mem_alloc_pitch, 2000),
      entry("cuMemGetAddressRange", mem_get_address_range, 2000),
      entry("cuMemcpy", memcpy_any, 4000),
      entry("cuMemcpyDtoD", memcpy_any, 2000),
      entry("cuMemcpy2D", memcpy_2d, 2000),
      entry("cuMemcpy2DAsync", memcpy_2d_async, 2000),
      entry("cuMemcpy2DUnaligned", memcpy_2d, 2000),
      entry("cuMemsetD8", memset_row<uint8_t>, 2000),
      entry("cuMemsetD16", memset_row<uint16_t>, 2000),
      entry("cuMemsetD32", memset_row<uint32_t>, 2000),
      entry("cuMemsetD2D8", memset_rows<uint8_t>, 2000),
      entry("cuMemsetD2D16", memset_rows<uint16_t>, 2000),
      entry("cuMemsetD2D32", memset_rows<uint32_t>, 2000),
      entry("cuMemsetD2D8Async", memset_rows_async<uint8_t>, 3020),
      entry("cuMemsetD2D16Async", memset_rows_async<uint16_t>, 3020),
      entry("cuMemsetD2D32Async", memset_rows_async<uint32_t>, 3020),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
