// The calls that make graphs, change them and ask about them as a whole.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "sim/cudart/api.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/node_list.h"

namespace mpfa::sim::cudart {
namespace {

using Edge = std::pair<GraphNode*, GraphNode*>;

std::vector<Edge> edges_of(const Graph& graph) {
  std::vector<Edge> edges;
  for (const auto& node : graph.nodes()) {
    for (GraphNode* dependency : node->dependencies) edges.emplace_back(dependency, node.get());
  }
  return edges;
}

std::vector<GraphNode*> all_nodes(const Graph& graph) {
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  return nodes;
}

std::vector<GraphNode*> root_nodes(const Graph& graph) {
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph.nodes()) {
    if (node->dependencies.empty()) nodes.push_back(node.get());
  }
  return nodes;
}

bool has_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return std::holds_alternative<AllocWork>(node->work) ||
           std::holds_alternative<FreeWork>(node->work);
  });
}

// All edges are of the default kind.
void clear_edge_data(cudaGraphEdgeData* data, size_t count) {
  if (data != nullptr) std::fill_n(data, count, cudaGraphEdgeData{});
}

void give_edges(const Graph& graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                cudaGraphEdgeData* data, size_t* count) {
  std::vector<GraphNode*> starts;
  std::vector<GraphNode*> ends;
  for (const auto& [start, end] : edges_of(graph)) {
    starts.push_back(start);
    ends.push_back(end);
  }
  require_pointer(count, "numEdges");
  require((from == nullptr) == (to == nullptr), cudaErrorInvalidValue,
          "from and to must both be given, or neither");
  size_t room = *count;
  give_nodes(starts, from, &room);
  give_nodes(ends, to, count);
  if (from != nullptr) clear_edge_data(data, *count);
}

// Adds or removes the edges from[i] -> to[i].
void change_edges(cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                  size_t count, void (Graph::*change)(GraphNode&, GraphNode&)) {
  Graph& graph = *find_graph(handle);
  const std::vector<GraphNode*> starts = find_nodes(from, count);
  const std::vector<GraphNode*> ends = find_nodes(to, count);
  for (size_t i = 0; i < count; ++i) (graph.*change)(*starts[i], *ends[i]);
}

const char* type_name(const Work& work) {
  switch (type_of(work)) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "memcpy";
    case cudaGraphNodeTypeMemset:
      return "memset";
    case cudaGraphNodeTypeHost:
      return "host";
    case cudaGraphNodeTypeGraph:
      return "child graph";
    case cudaGraphNodeTypeWaitEvent:
      return "event wait";
    case cudaGraphNodeTypeEventRecord:
      return "event record";
    case cudaGraphNodeTypeMemAlloc:
      return "alloc";
    case cudaGraphNodeTypeMemFree:
      return "free";
    case cudaGraphNodeTypeConditional:
      return "conditional";
    default:
      return "empty";
  }
}

std::string label_of(const Work& work) {
  std::string label = type_name(work);
  if (const auto* kernel = std::get_if<KernelWork>(&work)) {
    label += " " + kernel->function->kernel().name;
  }
  return label;
}

// In Graphviz's language.
void print_dot(const Graph& graph, std::ostream& out) {
  out << "digraph {\n";
  for (const auto& node : graph.nodes()) {
    out << "  n" << node->id << " [label=\"" << label_of(node->work) << "\"];\n";
    for (const GraphNode* before : node->dependencies) {
      out << "  n" << before->id << " -> n" << node->id << ";\n";
    }
  }
  out << "}\n";
}

}  // namespace

extern "C" {

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned /*flags*/) {
  return api_call("cudaGraphDebugDotPrint", [&] {
    require_pointer(path, "path");
    const std::shared_ptr<Graph> found = find_graph(graph);
    std::ofstream file(path);
    print_dot(*found, file);
    require(file.good(), cudaErrorOperatingSystem, path, " cannot be written");
  });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return api_call("cudaGraphCreate", [&] {
    require_pointer(graph, "pGraph");
    require(flags == 0, cudaErrorInvalidValue, "flags = ", flags, ": must be 0");
    *graph = publish(std::make_shared<Graph>());
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_call("cudaGraphDestroy", [&] { forget(graph); });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return api_call("cudaGraphClone", [&] {
    require_pointer(clone, "pGraphClone");
    const std::shared_ptr<Graph> original = find_graph(graph);
    require(!has_memory_nodes(*original), cudaErrorNotSupported,
            "a graph that allocates memory cannot be cloned");
    *clone = publish(original->clone());
  });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found, cudaGraphNode_t original,
                                     cudaGraph_t clone) {
  return api_call("cudaGraphNodeFindInClone", [&] {
    require_pointer(found, "pNode");
    const GraphNode& node = find_node(original);
    for (const auto& candidate : find_graph(clone)->nodes()) {
      if (candidate->origin != node.id) continue;
      *found = to_handle<cudaGraphNode_t>(candidate.get());
      return;
    }
    fail(cudaErrorInvalidValue, "the clone has no copy of the node");
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api_call("cudaGraphGetNodes",
                  [&] { give_nodes(all_nodes(*find_graph(graph)), nodes, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api_call("cudaGraphGetRootNodes",
                  [&] { give_nodes(root_nodes(*find_graph(graph)), nodes, count); });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, size_t* count) {
  return api_call("cudaGraphGetEdges",
                  [&] { give_edges(*find_graph(graph), from, to, data, count); });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* data, size_t* count) {
  return api_call("cudaGraphNodeGetDependencies", [&] {
    give_nodes(find_node(node).dependencies, dependencies, count);
    if (dependencies != nullptr) clear_edge_data(data, *count);
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                           cudaGraphEdgeData* data, size_t* count) {
  return api_call("cudaGraphNodeGetDependentNodes", [&] {
    const GraphNode& found = find_node(node);
    give_nodes(found.graph->dependents_of(found), dependents, count);
    if (dependents != nullptr) clear_edge_data(data, *count);
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* /*data*/,
                                     size_t count) {
  return api_call("cudaGraphAddDependencies",
                  [&] { change_edges(graph, from, to, count, &Graph::add_edge); });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to,
                                        const cudaGraphEdgeData* /*data*/, size_t count) {
  return api_call("cudaGraphRemoveDependencies",
                  [&] { change_edges(graph, from, to, count, &Graph::remove_edge); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api_call("cudaGraphNodeGetType", [&] {
    require_pointer(type, "pType");
    *type = type_of(find_node(node).work);
  });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return api_call("cudaGraphDestroyNode", [&] {
    GraphNode& found = find_node(node);
    found.graph->remove(found);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
