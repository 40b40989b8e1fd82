#include "sim/cudart/conditional.h"

#include <map>

#include "sim/cudart/api.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

std::map<uint64_t, std::weak_ptr<Conditional>>& by_handle() {
  static auto& all = *new std::map<uint64_t, std::weak_ptr<Conditional>>;
  return all;
}

void run_body(const Graph& graph) {
  for (const GraphNode* node : topological_order(graph)) run(node->work);
}

const char* bodies_of(cudaGraphConditionalNodeType type) {
  switch (type) {
    case cudaGraphCondTypeIf:
      return "an IF node has 1 or 2";
    case cudaGraphCondTypeWhile:
      return "a WHILE node has 1";
    default:
      return "a SWITCH node has 1 or more";
  }
}

void check_body_count(cudaGraphConditionalNodeType type, unsigned count) {
  require(type == cudaGraphCondTypeIf || type == cudaGraphCondTypeWhile ||
              type == cudaGraphCondTypeSwitch,
          cudaErrorInvalidValue, "type = ", static_cast<int>(type));
  const unsigned most = type == cudaGraphCondTypeIf ? 2 : type == cudaGraphCondTypeWhile ? 1 : ~0u;
  require(count >= 1 && count <= most, cudaErrorInvalidValue, "size = ", count, ": ",
          bodies_of(type));
}

}  // namespace

Conditional::Conditional(std::optional<unsigned> initial)
    : address_(reinterpret_cast<uint64_t>(allocate(sizeof(unsigned), MemoryKind::kModule))),
      initial_(initial) {
  begin_launch();
}

Conditional::~Conditional() {
  by_handle().erase(address_);
  gpu().memory().release(address_);
}

unsigned Conditional::value() const { return *reinterpret_cast<const unsigned*>(address_); }

void Conditional::begin_launch() {
  if (initial_) *reinterpret_cast<unsigned*>(address_) = *initial_;
}

std::shared_ptr<Conditional> find_conditional(cudaGraphConditionalHandle handle) {
  const auto found = by_handle().find(handle);
  require(found != by_handle().end(), cudaErrorInvalidValue, "there is no conditional of handle ",
          handle);
  return found->second.lock();
}

ConditionalWork conditional_node(cudaConditionalNodeParams& params) {
  check_body_count(params.type, params.size);
  ConditionalWork work;
  work.conditional = find_conditional(params.handle);
  work.type = params.type;
  work.handles = std::make_shared<std::vector<cudaGraph_t>>();
  for (unsigned i = 0; i < params.size; ++i) {
    work.bodies.push_back(std::make_shared<Graph>());
    work.handles->push_back(publish(work.bodies.back()));
  }
  params.phGraph_out = work.handles->data();
  return work;
}

void begin_conditionals(const Graph& graph) {
  for (const auto& conditional : graph.conditionals) conditional->begin_launch();
  for (const auto& node : graph.nodes()) {
    for (const auto& inner : graphs_in(node->work)) begin_conditionals(*inner);
  }
}

void run_conditional(const ConditionalWork& work) {
  const Conditional& conditional = *work.conditional;
  switch (work.type) {
    case cudaGraphCondTypeIf:
      if (conditional.value() != 0) {
        run_body(*work.bodies[0]);
      } else if (work.bodies.size() > 1) {
        run_body(*work.bodies[1]);
      }
      return;
    case cudaGraphCondTypeWhile:
      while (conditional.value() != 0) run_body(*work.bodies[0]);
      return;
    default:
      if (conditional.value() < work.bodies.size()) run_body(*work.bodies[conditional.value()]);
  }
}

extern "C" cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                                        cudaGraph_t graph, unsigned initial,
                                                        unsigned flags) {
  return api_call("cudaGraphConditionalHandleCreate", [&] {
    require_pointer(handle, "pHandle_out");
    require((flags & ~unsigned{cudaGraphCondAssignDefault}) == 0, cudaErrorInvalidValue,
            "flags = ", flags);
    const bool assigns = (flags & cudaGraphCondAssignDefault) != 0;
    auto conditional =
        std::make_shared<Conditional>(assigns ? std::optional(initial) : std::nullopt);
    find_graph(graph)->conditionals.push_back(conditional);
    by_handle()[conditional->handle()] = conditional;
    *handle = conditional->handle();
  });
}

}  // namespace mpfa::sim::cudart
