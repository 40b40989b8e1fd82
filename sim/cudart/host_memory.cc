// Host memory that the device reaches: allocated for it, or registered.
#include <cuda_runtime_api.h>

#include <map>
#include <optional>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

struct HostAllocation {
  size_t bytes = 0;
  unsigned flags = 0;
};

// Pinned and registered memory, by its start.
std::map<uint64_t, HostAllocation>& host_allocations() {
  static auto& all = *new std::map<uint64_t, HostAllocation>;
  return all;
}

std::optional<Allocation> find_host(const void* address) {
  std::optional<Allocation> found = gpu().memory().find(reinterpret_cast<uint64_t>(address));
  if (found && found->kind != MemoryKind::kPinnedHost &&
      found->kind != MemoryKind::kRegisteredHost) {
    found.reset();
  }
  return found;
}

void allocate_host(void** address, size_t bytes, unsigned flags) {
  require_pointer(address, "pHost");
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  require((flags & ~kKnown) == 0, cudaErrorInvalidValue, "flags = ", flags);
  *address = allocate(bytes, MemoryKind::kPinnedHost);
  if (*address == nullptr) return;
  // Addresses are unified, so that all of it is mapped.
  host_allocations()[reinterpret_cast<uint64_t>(*address)] = {bytes, flags | cudaHostAllocMapped};
}

void free_host(void* address) {
  if (address == nullptr) return;
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto found = find_host(address);
  require(found && found->address == at && found->kind == MemoryKind::kPinnedHost,
          cudaErrorInvalidValue, address, " is not the start of pinned host memory");
  host_allocations().erase(at);
  gpu().memory().release(at);
}

void register_memory(void* address, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown = cudaHostRegisterPortable | cudaHostRegisterMapped |
                              cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
  require(address != nullptr && bytes != 0, cudaErrorInvalidValue, bytes, " bytes at ", address,
          " cannot be registered");
  require((flags & ~kKnown) == 0, cudaErrorInvalidValue, "flags = ", flags);
  const auto at = reinterpret_cast<uint64_t>(address);
  require(!gpu().memory().owns(at), cudaErrorInvalidValue, address, " is the device's memory");
  require(gpu().memory().register_memory(address, bytes, MemoryKind::kRegisteredHost),
          cudaErrorHostMemoryAlreadyRegistered, bytes, " bytes at ", address,
          " overlap memory that is registered");
  host_allocations()[at] = {bytes, flags | cudaHostRegisterMapped};
}

void unregister_memory(void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto found = find_host(address);
  require(found.has_value(), cudaErrorHostMemoryNotRegistered, address, " is not registered");
  require(found->kind == MemoryKind::kRegisteredHost && found->address == at, cudaErrorInvalidValue,
          address, " is not the start of registered memory");
  host_allocations().erase(at);
  gpu().memory().release(at);
}

}  // namespace

uint64_t used_device_bytes() {
  uint64_t pinned = 0;
  for (const auto& [address, allocation] : host_allocations()) {
    if (gpu().memory().owns(address)) pinned += allocation.bytes;
  }
  return gpu().memory().used() - pinned;
}

extern "C" {

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  return api_call("cudaHostAlloc", [&] {
    forbid_unsafe_call("cudaHostAlloc");
    allocate_host(address, bytes, flags);
  });
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return api_call("cudaMallocHost", [&] {
    forbid_unsafe_call("cudaMallocHost");
    allocate_host(address, bytes, cudaHostAllocDefault);
  });
}

cudaError_t cudaFreeHost(void* address) {
  return api_call("cudaFreeHost", [&] {
    forbid_unsafe_call("cudaFreeHost");
    free_host(address);
  });
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  return api_call("cudaHostRegister", [&] {
    forbid_unsafe_call("cudaHostRegister");
    register_memory(address, bytes, flags);
  });
}

cudaError_t cudaHostUnregister(void* address) {
  return api_call("cudaHostUnregister", [&] {
    forbid_unsafe_call("cudaHostUnregister");
    unregister_memory(address);
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return api_call("cudaHostGetDevicePointer", [&] {
    require_pointer(device, "pDevice");
    require(flags == 0, cudaErrorInvalidValue, "flags = ", flags, ": must be 0");
    require(find_host(host).has_value(), cudaErrorInvalidValue, host, " is no pinned host memory");
    *device = host;
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return api_call("cudaHostGetFlags", [&] {
    require_pointer(flags, "pFlags");
    const auto found = find_host(host);
    require(found.has_value(), cudaErrorInvalidValue, host, " is no pinned host memory");
    *flags = host_allocations().at(found->address).flags;
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
