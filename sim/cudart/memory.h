// Allocations that programs make.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "sim/machine/global_memory.h"

namespace mpfa::sim::cudart {

// nullptr for 0 bytes. Throws ApiError if the device's memory does not suffice.
void* allocate(size_t bytes, MemoryKind kind);

// Throws ApiError unless a live allocation of device or managed memory begins at `address`.
void free_device(void* address);

// What the runtime calls the allocation's kind.
cudaMemoryType memory_type_of(const Allocation& allocation);

// Bytes that are taken of the device's memory: all but the host's pinned memory.
uint64_t used_device_bytes();

}  // namespace mpfa::sim::cudart
