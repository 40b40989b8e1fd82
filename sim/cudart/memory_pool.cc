// Memory that streams allocate. Work is done as it is issued, so a pool keeps nothing: what is
// freed is the device's again.
#include "sim/cudart/memory_pool.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <memory>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

struct MemoryPool {
  uint64_t used = 0;
  uint64_t used_high = 0;
  std::map<cudaMemPoolAttr, uint64_t> settings = {{cudaMemPoolReuseFollowEventDependencies, 1},
                                                  {cudaMemPoolReuseAllowOpportunistic, 1},
                                                  {cudaMemPoolReuseAllowInternalDependencies, 1},
                                                  {cudaMemPoolAttrReleaseThreshold, 0}};
};

struct PoolAllocation {
  std::weak_ptr<MemoryPool> pool;
  size_t bytes = 0;
};

HandleTable<MemoryPool>& pools() {
  static auto& all = *new HandleTable<MemoryPool>;
  return all;
}

// By address. Memory that was freed by cudaFree, too, must go from here: see pool_freed.
std::map<const void*, PoolAllocation>& pool_allocations() {
  static auto& all = *new std::map<const void*, PoolAllocation>;
  return all;
}

const std::shared_ptr<MemoryPool>& default_pool() {
  static auto& pool = *new auto([] {
    auto made = std::make_shared<MemoryPool>();
    pools().add(made);
    return made;
  }());
  return pool;
}

MemoryPool*& current_pool() {
  static MemoryPool* pool = default_pool().get();
  return pool;
}

std::shared_ptr<MemoryPool> find_pool(cudaMemPool_t handle) {
  default_pool();
  std::shared_ptr<MemoryPool> pool = pools().share(handle);
  require(pool != nullptr, cudaErrorInvalidValue, "there is no memory pool at ", handle);
  return pool;
}

void* allocate_from(const std::shared_ptr<MemoryPool>& pool, size_t bytes) {
  void* address = allocate(bytes, MemoryKind::kDevice);
  if (address == nullptr) return nullptr;
  pool_allocations()[address] = {pool, bytes};
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  return address;
}

void* allocate_in(Stream& stream, const std::shared_ptr<MemoryPool>& pool, size_t bytes) {
  if (stream.capture == nullptr) {
    forbid_implicit_dependency(stream);
    return allocate_from(pool, bytes);
  }
  if (bytes == 0) return nullptr;
  AllocWork work;
  work.memory = std::make_shared<GraphMemory>(bytes);
  work.params.poolProps.allocType = cudaMemAllocationTypePinned;
  work.params.poolProps.location.type = cudaMemLocationTypeDevice;
  work.params.poolProps.location.id = 0;
  work.params.bytesize = bytes;
  work.params.dptr = work.memory->address();
  void* address = work.memory->address();
  capture_work(stream, std::move(work));
  return address;
}

uint64_t get_attribute(const MemoryPool& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      return pool.used;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      return pool.used_high;
    default:
      break;
  }
  const auto set = pool.settings.find(attribute);
  require(set != pool.settings.end(), cudaErrorInvalidValue,
          "attr = ", static_cast<int>(attribute));
  return set->second;
}

bool is_boolean(cudaMemPoolAttr attribute) {
  return attribute == cudaMemPoolReuseFollowEventDependencies ||
         attribute == cudaMemPoolReuseAllowOpportunistic ||
         attribute == cudaMemPoolReuseAllowInternalDependencies;
}

void set_attribute(MemoryPool& pool, cudaMemPoolAttr attribute, const void* value) {
  if (attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh) {
    require(*static_cast<const uint64_t*>(value) == 0, cudaErrorInvalidValue,
            "a high-water mark can only be set to 0");
    pool.used_high = pool.used;
    return;
  }
  get_attribute(pool, attribute);
  require(pool.settings.contains(attribute), cudaErrorInvalidValue,
          "attr = ", static_cast<int>(attribute), " cannot be set");
  pool.settings[attribute] = is_boolean(attribute)
                                 ? static_cast<uint64_t>(*static_cast<const int*>(value))
                                 : *static_cast<const uint64_t*>(value);
}

void require_pinned_on_device(const cudaMemLocation* location, cudaMemAllocationType type) {
  require_pointer(location, "location");
  require(location->type == cudaMemLocationTypeDevice && location->id == 0 &&
              type == cudaMemAllocationTypePinned,
          cudaErrorNotSupported, "pools of memory type ", static_cast<int>(type), " at location ",
          static_cast<int>(location->type), " ", location->id, " are not simulated");
}

}  // namespace

void pool_freed(const void* address) {
  const auto found = pool_allocations().find(address);
  if (found == pool_allocations().end()) return;
  if (const auto pool = found->second.pool.lock()) pool->used -= found->second.bytes;
  pool_allocations().erase(found);
}

extern "C" {

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  return api_call("cudaMallocAsync", [&] {
    require_pointer(address, "devPtr");
    *address = allocate_in(find_stream(stream), find_pool(to_handle<cudaMemPool_t>(current_pool())),
                           bytes);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return api_call("cudaMallocFromPoolAsync", [&] {
    require_pointer(address, "ptr");
    *address = allocate_in(find_stream(stream), find_pool(pool), bytes);
  });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return api_call("cudaFreeAsync", [&] {
    Stream& found = find_stream(stream);
    if (address == nullptr) return;
    if (found.capture != nullptr) {
      capture_work(found, FreeWork{address});
      return;
    }
    forbid_implicit_dependency(found);
    free_device(address);
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api_call("cudaDeviceGetDefaultMemPool", [&] {
    require_pointer(pool, "memPool");
    require_device(device);
    *pool = to_handle<cudaMemPool_t>(default_pool().get());
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api_call("cudaDeviceGetMemPool", [&] {
    require_pointer(pool, "memPool");
    require_device(device);
    *pool = to_handle<cudaMemPool_t>(current_pool());
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return api_call("cudaDeviceSetMemPool", [&] {
    require_device(device);
    current_pool() = find_pool(pool).get();
  });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                     cudaMemAllocationType type) {
  return api_call("cudaMemGetDefaultMemPool", [&] {
    require_pointer(pool, "memPool");
    require_pinned_on_device(location, type);
    *pool = to_handle<cudaMemPool_t>(default_pool().get());
  });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                              cudaMemAllocationType type) {
  return api_call("cudaMemGetMemPool", [&] {
    require_pointer(pool, "memPool");
    require_pinned_on_device(location, type);
    *pool = to_handle<cudaMemPool_t>(current_pool());
  });
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                              cudaMemPool_t pool) {
  return api_call("cudaMemSetMemPool", [&] {
    require_pinned_on_device(location, type);
    current_pool() = find_pool(pool).get();
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return api_call("cudaMemPoolCreate", [&] {
    require_pointer(pool, "memPool");
    require_pointer(props, "poolProps");
    require(props->allocType == cudaMemAllocationTypePinned, cudaErrorInvalidValue,
            "allocType = ", static_cast<int>(props->allocType),
            ": must be cudaMemAllocationTypePinned");
    require(props->location.type == cudaMemLocationTypeDevice && props->location.id == 0,
            cudaErrorInvalidValue, "location: must be device 0");
    *pool = to_handle<cudaMemPool_t>(pools().add(std::make_shared<MemoryPool>()));
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return api_call("cudaMemPoolDestroy", [&] {
    const std::shared_ptr<MemoryPool> found = find_pool(pool);
    require(found != default_pool(), cudaErrorInvalidValue, "the default pool cannot be destroyed");
    if (current_pool() == found.get()) current_pool() = default_pool().get();
    pools().remove(pool);
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t /*bytes*/) {
  return api_call("cudaMemPoolTrimTo", [&] { find_pool(pool); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api_call("cudaMemPoolGetAttribute", [&] {
    require_pointer(value, "value");
    const uint64_t number = get_attribute(*find_pool(pool), attribute);
    if (is_boolean(attribute)) {
      *static_cast<int*>(value) = static_cast<int>(number);
    } else {
      *static_cast<uint64_t*>(value) = number;
    }
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api_call("cudaMemPoolSetAttribute", [&] {
    require_pointer(value, "value");
    set_attribute(*find_pool(pool), attribute, value);
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* /*location*/) {
  return api_call("cudaMemPoolGetAccess", [&] {
    require_pointer(flags, "flags");
    find_pool(pool);
    *flags = cudaMemAccessFlagsProtReadWrite;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* /*list*/,
                                 size_t /*count*/) {
  return api_call("cudaMemPoolSetAccess", [&] { find_pool(pool); });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
