// Lists of graph nodes, as the API takes and gives them.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "sim/cudart/graph.h"

namespace mpfa::sim::cudart {

// Throws ApiError for a null list that is not empty, or for what is no node.
std::vector<GraphNode*> find_nodes(const cudaGraphNode_t* handles, size_t count);

// Writes as many handles as *count says there is room for, nulls after the last; *count becomes the
// number written, or of all nodes if `out` is null.
void give_nodes(const std::vector<GraphNode*>& nodes, cudaGraphNode_t* out, size_t* count);

}  // namespace mpfa::sim::cudart
