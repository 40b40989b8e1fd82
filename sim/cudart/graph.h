// Graphs: nodes of work and the order between them; and their executable copies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/cudart/work.h"

namespace mpfa::sim::cudart {

struct UserObject;

struct GraphNode {
  Graph* graph = nullptr;
  uint64_t id = 0;      // counts up within the graph
  uint64_t origin = 0;  // of a clone: the original's id
  Work work;
  std::vector<GraphNode*> dependencies;  // each once, in the order they were added
};

class Graph {
 public:
  // Throws ApiError unless the dependencies are different nodes of this graph.
  GraphNode& add(Work work, const std::vector<GraphNode*>& dependencies);
  // Throws ApiError if the edge exists (add) or does not (remove).
  void add_edge(GraphNode& from, GraphNode& to);
  void remove_edge(GraphNode& from, GraphNode& to);
  void remove(GraphNode& node);

  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  std::vector<GraphNode*> dependents_of(const GraphNode& node) const;

  // Nodes of the copy have this graph's ids as their origins.
  std::shared_ptr<Graph> clone() const;

  // References that cudaGraphRetainUserObject gave to this graph.
  std::map<UserObject*, unsigned> user_objects;
  // Those that were made for this graph.
  std::vector<std::shared_ptr<Conditional>> conditionals;

  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

 private:
  uint64_t next_id_ = 1;
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

// The nodes, each after those it depends on, else in the order they were added. Throws ApiError if
// they depend on each other in a circle.
std::vector<GraphNode*> topological_order(const Graph& graph);

// A graph made ready to be launched: a copy, which the original's later changes do not reach.
struct GraphExec {
  struct Node {
    uint64_t origin = 0;  // id in the graph
    Work work;
    std::vector<uint64_t> dependencies;  // origins
    bool enabled = true;
  };

  std::vector<Node> nodes;  // in an order to run them
  unsigned long long flags = 0;
  std::shared_ptr<Graph> copy;  // what keeps user objects and memory alive

  // Throws ApiError if the node of the original graph is none of these.
  Node& node_of(const GraphNode& original);
};

std::shared_ptr<GraphExec> instantiate(const Graph& graph, unsigned long long flags);
void run_graph(const GraphExec& exec);

// Live handles. Each throws ApiError for what is none.
std::shared_ptr<Graph> find_graph(cudaGraph_t handle);
GraphNode& find_node(cudaGraphNode_t handle);
std::shared_ptr<GraphExec> find_exec(cudaGraphExec_t handle);
cudaGraph_t publish(const std::shared_ptr<Graph>& graph);
cudaGraphExec_t publish(const std::shared_ptr<GraphExec>& exec);
void forget(cudaGraph_t handle);
void forget(cudaGraphExec_t handle);

}  // namespace mpfa::sim::cudart
