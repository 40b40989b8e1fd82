// Device memory that a graph's node allocates. Its address is fixed when the node is made. Graphs
// can be launched again after the program or another node freed it, so it is the program's until no
// node knows of it any more.
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

 private:
  void* address_;
};

bool is_graph_memory(const void* address);

}  // namespace mpfa::sim::cudart
