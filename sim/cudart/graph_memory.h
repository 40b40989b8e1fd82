// Device memory that a graph's node allocates. Its address is fixed when the node is made; launches
// of the graph allocate it, and nodes, streams and cudaFree free it, over and over.
#pragma once

#include <cstddef>

namespace mpfa::sim::cudart {

class GraphMemory {
 public:
  explicit GraphMemory(size_t bytes);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void* address() const { return address_; }

  // Of a launch. Throws ApiError if what an earlier one allocated was not freed.
  void allocate();
  // Throws ApiError if it is not allocated.
  void free();
  bool is_allocated() const { return is_allocated_; }

 private:
  void* address_;
  size_t bytes_;
  bool is_allocated_ = false;
};

// Bytes of all graphs' memory: what launches have allocated now, what is kept for them, and the
// most of each since the mark was last lowered.
struct GraphMemoryUse {
  size_t used = 0;
  size_t used_high = 0;
  size_t reserved = 0;
  size_t reserved_high = 0;
};
GraphMemoryUse& graph_memory_use();

// nullptr if no graph's memory begins at `address`.
GraphMemory* find_graph_memory(const void* address);

}  // namespace mpfa::sim::cudart
