#include "sim/cudart/node_list.h"

#include <algorithm>

#include "sim/cudart/api.h"
#include "sim/cudart/handle_table.h"

namespace mpfa::sim::cudart {

std::vector<GraphNode*> find_nodes(const cudaGraphNode_t* handles, size_t count) {
  if (count == 0) return {};
  require_pointer(handles, "the list of nodes");
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(&find_node(handles[i]));
  return nodes;
}

void give_nodes(const std::vector<GraphNode*>& nodes, cudaGraphNode_t* out, size_t* count) {
  require_pointer(count, "the number of nodes");
  if (out != nullptr) {
    const size_t room = *count;
    for (size_t i = 0; i < room; ++i) {
      out[i] = i < nodes.size() ? to_handle<cudaGraphNode_t>(nodes[i]) : nullptr;
    }
    *count = std::min(room, nodes.size());
    return;
  }
  *count = nodes.size();
}

}  // namespace mpfa::sim::cudart
