#include "sim/cudart/graph_memory.h"

#include <set>

#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

std::set<const void*>& addresses() {
  static auto& all = *new std::set<const void*>;
  return all;
}

}  // namespace

GraphMemory::GraphMemory(size_t bytes) : address_(allocate(bytes, MemoryKind::kDevice)) {
  addresses().insert(address_);
}

GraphMemory::~GraphMemory() {
  addresses().erase(address_);
  gpu().memory().release(reinterpret_cast<uint64_t>(address_));
}

bool is_graph_memory(const void* address) { return addresses().contains(address); }

}  // namespace mpfa::sim::cudart
