#include "sim/cudart/graph_memory.h"

#include <algorithm>
#include <map>

#include "sim/cudart/api.h"
#include "sim/cudart/device_attributes.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

std::map<const void*, GraphMemory*>& by_address() {
  static auto& all = *new std::map<const void*, GraphMemory*>;
  return all;
}

}  // namespace

GraphMemoryUse& graph_memory_use() {
  static GraphMemoryUse use;
  return use;
}

GraphMemory::GraphMemory(size_t bytes)
    : address_(cudart::allocate(bytes, MemoryKind::kDevice)), bytes_(bytes) {
  by_address()[address_] = this;
  GraphMemoryUse& use = graph_memory_use();
  use.reserved += bytes;
  use.reserved_high = std::max(use.reserved_high, use.reserved);
}

GraphMemory::~GraphMemory() {
  graph_memory_use().reserved -= bytes_;
  if (is_allocated_) graph_memory_use().used -= bytes_;
  by_address().erase(address_);
  gpu().memory().release(reinterpret_cast<uint64_t>(address_));
}

void GraphMemory::allocate() {
  require(!is_allocated_, cudaErrorInvalidValue,
          "the graph is launched again before the memory at ", address_, " was freed");
  is_allocated_ = true;
  GraphMemoryUse& use = graph_memory_use();
  use.used += bytes_;
  use.used_high = std::max(use.used_high, use.used);
}

void GraphMemory::free() {
  require(is_allocated_, cudaErrorInvalidValue, "the graph's memory at ", address_,
          " is not allocated");
  is_allocated_ = false;
  graph_memory_use().used -= bytes_;
}

GraphMemory* find_graph_memory(const void* address) {
  const auto found = by_address().find(address);
  return found == by_address().end() ? nullptr : found->second;
}

namespace {

size_t& number_of(cudaGraphMemAttributeType attribute) {
  GraphMemoryUse& use = graph_memory_use();
  switch (attribute) {
    case cudaGraphMemAttrUsedMemCurrent:
      return use.used;
    case cudaGraphMemAttrUsedMemHigh:
      return use.used_high;
    case cudaGraphMemAttrReservedMemCurrent:
      return use.reserved;
    case cudaGraphMemAttrReservedMemHigh:
      return use.reserved_high;
    default:
      break;
  }
  fail(cudaErrorInvalidValue, "attr = ", static_cast<int>(attribute));
}

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  return api_call("cudaDeviceGetGraphMemAttribute", [&] {
    require_device(device);
    require_pointer(value, "value");
    *static_cast<uint64_t*>(value) = number_of(attribute);
  });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  return api_call("cudaDeviceSetGraphMemAttribute", [&] {
    require_device(device);
    require_pointer(value, "value");
    const bool is_used = attribute == cudaGraphMemAttrUsedMemHigh;
    require(is_used || attribute == cudaGraphMemAttrReservedMemHigh, cudaErrorInvalidValue,
            "attr = ", static_cast<int>(attribute), ": only high-water marks can be set");
    require(*static_cast<const uint64_t*>(value) == 0, cudaErrorInvalidValue,
            "a high-water mark can only be set to 0");
    GraphMemoryUse& use = graph_memory_use();
    number_of(attribute) = is_used ? use.used : use.reserved;
  });
}

// A graph's memory is the graph's until it goes.
cudaError_t cudaDeviceGraphMemTrim(int device) {
  return api_call("cudaDeviceGraphMemTrim", [&] { require_device(device); });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
