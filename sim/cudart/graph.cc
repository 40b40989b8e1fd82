#include "sim/cudart/graph.h"

#include <algorithm>
#include <set>

#include "sim/cudart/api.h"
#include "sim/cudart/conditional.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/user_object.h"

namespace mpfa::sim::cudart {
namespace {

HandleTable<Graph>& graphs() {
  static auto& all = *new HandleTable<Graph>;
  return all;
}

HandleTable<GraphExec>& execs() {
  static auto& all = *new HandleTable<GraphExec>;
  return all;
}

// Every node of every graph there is.
std::set<const void*>& live_nodes() {
  static auto& all = *new std::set<const void*>;
  return all;
}

// A node's handle, and those of the graphs it holds.
void forget_node(const GraphNode& node) {
  live_nodes().erase(&node);
  for (const auto& inner : graphs_in(node.work)) graphs().remove(inner.get());
}

// Graphs of its own for a copied node.
void clone_inner(Work& work) {
  if (auto* child = std::get_if<ChildGraphWork>(&work)) {
    child->graph = child->graph->clone();
    publish(child->graph);
  }
  if (auto* conditional = std::get_if<ConditionalWork>(&work)) {
    conditional->handles = std::make_shared<std::vector<cudaGraph_t>>();
    for (auto& body : conditional->bodies) {
      body = body->clone();
      conditional->handles->push_back(publish(body));
    }
  }
}

}  // namespace

Graph::~Graph() {
  for (const auto& node : nodes_) forget_node(*node);
  for (const auto& [object, count] : user_objects) release(*object, count);
}

GraphNode& Graph::add(Work work, const std::vector<GraphNode*>& dependencies) {
  std::set<const GraphNode*> seen;
  for (const GraphNode* dependency : dependencies) {
    require(dependency->graph == this, cudaErrorInvalidValue,
            "a dependency is a node of another graph");
    require(seen.insert(dependency).second, cudaErrorInvalidValue, "a dependency is given twice");
  }
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->id = next_id_++;
  node->origin = node->id;
  node->work = std::move(work);
  node->dependencies = dependencies;
  live_nodes().insert(node.get());
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

void Graph::add_edge(GraphNode& from, GraphNode& to) {
  require(from.graph == this && to.graph == this, cudaErrorInvalidValue,
          "an edge's node is in another graph");
  require(&from != &to, cudaErrorInvalidValue, "a node cannot depend on itself");
  auto& all = to.dependencies;
  require(std::find(all.begin(), all.end(), &from) == all.end(), cudaErrorInvalidValue,
          "the edge is there already");
  all.push_back(&from);
}

void Graph::remove_edge(GraphNode& from, GraphNode& to) {
  auto& all = to.dependencies;
  const auto found = std::find(all.begin(), all.end(), &from);
  require(found != all.end(), cudaErrorInvalidValue, "there is no such edge");
  all.erase(found);
}

void Graph::remove(GraphNode& node) {
  for (const auto& other : nodes_) std::erase(other->dependencies, &node);
  forget_node(node);
  std::erase_if(nodes_, [&node](const auto& owned) { return owned.get() == &node; });
}

std::vector<GraphNode*> Graph::dependents_of(const GraphNode& node) const {
  std::vector<GraphNode*> dependents;
  for (const auto& other : nodes_) {
    const auto& all = other->dependencies;
    if (std::find(all.begin(), all.end(), &node) != all.end()) dependents.push_back(other.get());
  }
  return dependents;
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::make_shared<Graph>();
  std::map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : nodes_) {
    GraphNode& added = copy->add(node->work, {});
    added.origin = node->id;
    clone_inner(added.work);
    copies[node.get()] = &added;
  }
  for (const auto& node : nodes_) {
    for (const GraphNode* dependency : node->dependencies) {
      copies[node.get()]->dependencies.push_back(copies[dependency]);
    }
  }
  copy->conditionals = conditionals;
  copy->user_objects = user_objects;
  for (const auto& [object, count] : user_objects) retain(*object, count);
  return copy;
}

std::vector<GraphNode*> topological_order(const Graph& graph) {
  std::vector<GraphNode*> order;
  std::set<const GraphNode*> done;
  const size_t count = graph.nodes().size();
  while (order.size() < count) {
    const size_t before = order.size();
    for (const auto& node : graph.nodes()) {
      if (done.contains(node.get())) continue;
      const bool ready = std::all_of(node->dependencies.begin(), node->dependencies.end(),
                                     [&](const GraphNode* d) { return done.contains(d); });
      if (!ready) continue;
      order.push_back(node.get());
      done.insert(node.get());
    }
    require(order.size() > before, cudaErrorInvalidValue,
            "the graph's nodes depend on each other in a circle");
  }
  return order;
}

GraphExec::Node& GraphExec::node_of(const GraphNode& original) {
  for (Node& node : nodes) {
    if (node.origin == original.id) return node;
  }
  fail(cudaErrorInvalidValue, "the node is none of the executable graph's");
}

std::shared_ptr<GraphExec> instantiate(const Graph& graph, unsigned long long flags) {
  topological_order(graph);  // throws for a circle, which a copy could not be made of
  auto exec = std::make_shared<GraphExec>();
  exec->flags = flags;
  exec->copy = graph.clone();
  for (const GraphNode* node : topological_order(*exec->copy)) {
    GraphExec::Node made;
    made.origin = node->origin;
    made.work = node->work;
    for (const GraphNode* dependency : node->dependencies) {
      made.dependencies.push_back(dependency->origin);
    }
    exec->nodes.push_back(std::move(made));
  }
  return exec;
}

void run_graph(const GraphExec& exec) {
  const bool frees_first = (exec.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0;
  for (const GraphExec::Node& node : exec.nodes) {
    const auto* alloc = std::get_if<AllocWork>(&node.work);
    if (frees_first && alloc != nullptr && alloc->memory->is_allocated()) alloc->memory->free();
  }
  begin_conditionals(*exec.copy);
  for (const GraphExec::Node& node : exec.nodes) {
    if (node.enabled) run(node.work);
  }
}

std::shared_ptr<Graph> find_graph(cudaGraph_t handle) {
  std::shared_ptr<Graph> graph = graphs().share(handle);
  require(graph != nullptr, cudaErrorInvalidValue, "there is no graph at ", handle);
  return graph;
}

GraphNode& find_node(cudaGraphNode_t handle) {
  require(live_nodes().contains(handle), cudaErrorInvalidValue, "there is no graph node at ",
          handle);
  return *static_cast<GraphNode*>(static_cast<void*>(handle));
}

std::shared_ptr<GraphExec> find_exec(cudaGraphExec_t handle) {
  std::shared_ptr<GraphExec> exec = execs().share(handle);
  require(exec != nullptr, cudaErrorInvalidValue, "there is no executable graph at ", handle);
  return exec;
}

cudaGraph_t publish(const std::shared_ptr<Graph>& graph) {
  return to_handle<cudaGraph_t>(graphs().add(graph));
}

cudaGraphExec_t publish(const std::shared_ptr<GraphExec>& exec) {
  return to_handle<cudaGraphExec_t>(execs().add(exec));
}

void forget(cudaGraph_t handle) {
  require(graphs().remove(handle) != nullptr, cudaErrorInvalidValue, "there is no graph at ",
          handle);
}

void forget(cudaGraphExec_t handle) {
  require(execs().remove(handle) != nullptr, cudaErrorInvalidValue,
          "there is no executable graph at ", handle);
}

}  // namespace mpfa::sim::cudart
