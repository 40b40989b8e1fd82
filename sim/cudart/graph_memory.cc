#include "sim/cudart/graph_memory.h"

#include <map>

#include "sim/cudart/api.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

std::map<const void*, GraphMemory*>& by_address() {
  static auto& all = *new std::map<const void*, GraphMemory*>;
  return all;
}

}  // namespace

GraphMemory::GraphMemory(size_t bytes) : address_(cudart::allocate(bytes, MemoryKind::kDevice)) {
  by_address()[address_] = this;
}

GraphMemory::~GraphMemory() {
  by_address().erase(address_);
  gpu().memory().release(reinterpret_cast<uint64_t>(address_));
}

void GraphMemory::allocate() {
  require(!is_allocated_, cudaErrorInvalidValue,
          "the graph is launched again before the memory at ", address_, " was freed");
  is_allocated_ = true;
}

void GraphMemory::free() {
  require(is_allocated_, cudaErrorInvalidValue, "the graph's memory at ", address_,
          " is not allocated");
  is_allocated_ = false;
}

GraphMemory* find_graph_memory(const void* address) {
  const auto found = by_address().find(address);
  return found == by_address().end() ? nullptr : found->second;
}

}  // namespace mpfa::sim::cudart
