#include "sim/cudart/memory.h"

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/graph_memory.h"
#include "sim/cudart/memory_pool.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

constexpr size_t kPitchUnit = 512;  // of the H200's cudaMallocPitch

size_t pitch_of(size_t width) { return (width + kPitchUnit - 1) / kPitchUnit * kPitchUnit; }

// `height` rows of a pitch that the device likes; no memory if there are none.
void* allocate_rows(size_t width, size_t height, size_t& pitch) {
  size_t bytes = 0;
  pitch = pitch_of(width);
  require(!__builtin_mul_overflow(pitch, height, &bytes), cudaErrorMemoryAllocation, width, " x ",
          height, " bytes are too many");
  return allocate(bytes, MemoryKind::kDevice);
}

}  // namespace

void* allocate(size_t bytes, MemoryKind kind) {
  if (bytes == 0) return nullptr;
  GlobalMemory& memory = gpu().memory();
  const uint64_t address = memory.allocate(bytes, kind);
  require(address != 0, cudaErrorMemoryAllocation, bytes, " bytes do not fit: ", memory.used(),
          " of ", memory.capacity(), " are taken");
  return reinterpret_cast<void*>(address);
}

void free_device(void* address) {
  if (address == nullptr) return;
  if (GraphMemory* of_graph = find_graph_memory(address)) {
    of_graph->free();
    return;
  }
  GlobalMemory& memory = gpu().memory();
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto allocation = memory.find(at);
  require(allocation.has_value() && allocation->address == at && memory.owns(at) &&
              (allocation->kind == MemoryKind::kDevice || allocation->kind == MemoryKind::kManaged),
          cudaErrorInvalidValue, address, " is not the start of an allocation of device memory");
  memory.release(at);
  pool_freed(address);
}

cudaMemoryType memory_type_of(const Allocation& allocation) {
  switch (allocation.kind) {
    case MemoryKind::kDevice:
    case MemoryKind::kModule:
    case MemoryKind::kHeap:
      return cudaMemoryTypeDevice;
    case MemoryKind::kManaged:
      return cudaMemoryTypeManaged;
    case MemoryKind::kPinnedHost:
    case MemoryKind::kRegisteredHost:
      return cudaMemoryTypeHost;
  }
  return cudaMemoryTypeUnregistered;
}

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return api_call("cudaMalloc", [&] {
    require_pointer(address, "devPtr");
    forbid_unsafe_call("cudaMalloc");
    *address = nullptr;
    *address = allocate(bytes, MemoryKind::kDevice);
  });
}

cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned flags) {
  return api_call("cudaMallocManaged", [&] {
    require_pointer(address, "devPtr");
    require(flags == cudaMemAttachGlobal || flags == cudaMemAttachHost, cudaErrorInvalidValue,
            "flags = ", flags, ": must be cudaMemAttachGlobal or cudaMemAttachHost");
    forbid_unsafe_call("cudaMallocManaged");
    *address = allocate(bytes, MemoryKind::kManaged);
  });
}

cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  return api_call("cudaMallocPitch", [&] {
    require_pointer(address, "devPtr");
    require_pointer(pitch, "pitch");
    forbid_unsafe_call("cudaMallocPitch");
    *address = allocate_rows(width, height, *pitch);
  });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  return api_call("cudaMalloc3D", [&] {
    require_pointer(memory, "pitchedDevPtr");
    forbid_unsafe_call("cudaMalloc3D");
    size_t rows = 0;
    require(!__builtin_mul_overflow(extent.height, extent.depth, &rows), cudaErrorMemoryAllocation,
            "the extent is too large");
    memory->ptr = allocate_rows(extent.width, rows, memory->pitch);
    memory->xsize = extent.width;
    memory->ysize = extent.height;
  });
}

cudaError_t cudaFree(void* address) {
  return api_call("cudaFree", [&] {
    forbid_unsafe_call("cudaFree");
    free_device(address);
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api_call("cudaMemGetInfo", [&] {
    require_pointer(free, "free");
    require_pointer(total, "total");
    *total = gpu().memory().capacity();
    *free = *total - used_device_bytes();
  });
}

// Only packs its arguments. Arrays of such elements are not simulated.
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                            cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
