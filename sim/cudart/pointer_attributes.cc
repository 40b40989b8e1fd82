// What a pointer points to, and hints about where managed memory should be.
#include <cuda_runtime_api.h>

#include "sim/cudart/api.h"
#include "sim/cudart/copy.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

void describe(cudaPointerAttributes& attributes, const void* address) {
  constexpr int kNoDevice = -2;  // what the real runtime says
  const auto found = gpu().memory().find(reinterpret_cast<uint64_t>(address));
  void* pointer = const_cast<void*>(address);
  attributes = {};
  attributes.type = found ? memory_type_of(*found) : cudaMemoryTypeUnregistered;
  attributes.device = found ? 0 : kNoDevice;
  if (attributes.type != cudaMemoryTypeUnregistered) attributes.devicePointer = pointer;
  if (attributes.type != cudaMemoryTypeDevice) attributes.hostPointer = pointer;
}

void require_managed(const void* address, size_t bytes) {
  check_device_range("devPtr", address, bytes);
  const auto found = gpu().memory().find(reinterpret_cast<uint64_t>(address));
  require(found->kind == MemoryKind::kManaged || found->kind == MemoryKind::kModule,
          cudaErrorInvalidValue, address, " is not managed memory");
}

}  // namespace

extern "C" {

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return api_call("cudaPointerGetAttributes", [&] {
    require_pointer(attributes, "attributes");
    describe(*attributes, address);
  });
}

cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation /*location*/,
                                 unsigned flags, cudaStream_t stream) {
  return api_call("cudaMemPrefetchAsync", [&] {
    require(flags == 0, cudaErrorInvalidValue, "flags = ", flags, ": must be 0");
    require_managed(address, bytes);
    issue(stream, EmptyWork{});
  });
}

cudaError_t cudaMemAdvise(const void* address, size_t bytes, cudaMemoryAdvise advice,
                          cudaMemLocation /*location*/) {
  return api_call("cudaMemAdvise", [&] {
    require(advice >= cudaMemAdviseSetReadMostly && advice <= cudaMemAdviseUnsetAccessedBy,
            cudaErrorInvalidValue, "advice = ", static_cast<int>(advice));
    require_managed(address, bytes);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
