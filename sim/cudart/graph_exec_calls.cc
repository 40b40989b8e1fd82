// The calls that instantiate graphs, change what was instantiated, and launch it.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/node_work.h"
#include "sim/cudart/stream.h"
#include "sim/cudart/symbol_copy.h"

namespace mpfa::sim::cudart {
namespace {

void instantiate_into(cudaGraphExec_t* result, cudaGraph_t graph, unsigned long long flags) {
  require_pointer(result, "pGraphExec");
  constexpr unsigned long long kKnown = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                        cudaGraphInstantiateFlagUpload |
                                        cudaGraphInstantiateFlagUseNodePriority;
  require((flags & cudaGraphInstantiateFlagDeviceLaunch) == 0, cudaErrorNotSupported,
          "graphs that the device launches are not simulated");
  require((flags & ~kKnown) == 0, cudaErrorInvalidValue, "flags = ", flags);
  *result = publish(instantiate(*find_graph(graph), flags));
}

// A graph of what the executable one does now, for a stream that is being captured.
std::shared_ptr<Graph> to_graph(const GraphExec& exec) {
  auto graph = std::make_shared<Graph>();
  std::map<uint64_t, GraphNode*> made;
  for (const GraphExec::Node& node : exec.nodes) {
    std::vector<GraphNode*> dependencies;
    for (const uint64_t origin : node.dependencies) dependencies.push_back(made.at(origin));
    made[node.origin] = &graph->add(node.enabled ? node.work : Work(EmptyWork{}), dependencies);
  }
  return graph;
}

void launch(const std::shared_ptr<GraphExec>& exec, Stream& stream) {
  if (stream.capture != nullptr) {
    ChildGraphWork work{to_graph(*exec)};
    publish(work.graph);
    capture_work(stream, std::move(work));
    return;
  }
  forbid_implicit_dependency(stream);
  run_graph(*exec);
}

// The first difference between an executable graph and a graph that is to replace its parameters.
cudaGraphExecUpdateResultInfo compare(const GraphExec& exec, const std::vector<GraphNode*>& nodes) {
  cudaGraphExecUpdateResultInfo info{};
  if (nodes.size() != exec.nodes.size()) {
    info.result = cudaGraphExecUpdateErrorTopologyChanged;
    return info;
  }
  std::map<uint64_t, uint64_t> to_origin;  // from the new graph's ids
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = *nodes[i];
    info.errorNode = to_handle<cudaGraphNode_t>(&node);
    if (node.work.index() != exec.nodes[i].work.index()) {
      info.result = cudaGraphExecUpdateErrorNodeTypeChanged;
      return info;
    }
    std::vector<uint64_t> dependencies;
    for (const GraphNode* dependency : node.dependencies) {
      dependencies.push_back(to_origin.at(dependency->id));
    }
    std::vector<uint64_t> before = exec.nodes[i].dependencies;
    std::sort(dependencies.begin(), dependencies.end());
    std::sort(before.begin(), before.end());
    if (dependencies != before) {
      info.result = cudaGraphExecUpdateErrorTopologyChanged;
      return info;
    }
    to_origin[node.id] = exec.nodes[i].origin;
  }
  info.errorNode = nullptr;
  info.result = cudaGraphExecUpdateSuccess;
  return info;
}

void update(GraphExec& exec, const Graph& graph, cudaGraphExecUpdateResultInfo* info) {
  const std::shared_ptr<Graph> copy = graph.clone();
  const std::vector<GraphNode*> nodes = topological_order(graph);
  *info = compare(exec, nodes);
  require(info->result == cudaGraphExecUpdateSuccess, cudaErrorGraphExecUpdateFailure,
          "the graph's nodes are not those that were instantiated, but for their parameters");
  const std::vector<GraphNode*> copies = topological_order(*copy);
  for (size_t i = 0; i < copies.size(); ++i) exec.nodes[i].work = copies[i]->work;
  exec.copy = copy;
}

GraphExec::Node& find_exec_node(cudaGraphExec_t exec, cudaGraphNode_t node) {
  return find_exec(exec)->node_of(find_node(node));
}

// Only these do something that can be left out (cudaGraphNodeSetEnabled).
GraphExec::Node& find_optional_node(cudaGraphExec_t exec, cudaGraphNode_t node) {
  GraphExec::Node& found = find_exec_node(exec, node);
  const cudaGraphNodeType type = type_of(found.work);
  require(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
              type == cudaGraphNodeTypeMemset,
          cudaErrorInvalidValue, "only kernel, memcpy and memset nodes can be disabled");
  return found;
}

cudaError_t set_call(const char* name, cudaGraphExec_t exec, cudaGraphNode_t node,
                     const std::function<Work()>& work) {
  return api_call(name, [&] { replace_work(find_exec_node(exec, node).work, work()); });
}

}  // namespace

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return api_call("cudaGraphInstantiate", [&] { instantiate_into(exec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return api_call("cudaGraphInstantiateWithFlags", [&] { instantiate_into(exec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  return api_call("cudaGraphInstantiateWithParams", [&] {
    require_pointer(params, "instantiateParams");
    params->errNode_out = nullptr;
    params->result_out = cudaGraphInstantiateError;
    instantiate_into(exec, graph, params->flags);
    params->result_out = cudaGraphInstantiateSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api_call("cudaGraphExecDestroy", [&] { forget(exec); });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return api_call("cudaGraphExecGetFlags", [&] {
    require_pointer(flags, "flags");
    *flags = find_exec(exec)->flags;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return api_call("cudaGraphUpload", [&] {
    find_exec(exec);
    find_stream(stream);
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api_call("cudaGraphLaunch", [&] { launch(find_exec(exec), find_stream(stream)); });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return api_call("cudaGraphExecUpdate", [&] {
    require_pointer(info, "resultInfo");
    *info = {};
    info->result = cudaGraphExecUpdateError;
    update(*find_exec(exec), *find_graph(graph), info);
  });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  return api_call("cudaGraphNodeSetEnabled",
                  [&] { find_optional_node(exec, node).enabled = enabled != 0; });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  return api_call("cudaGraphNodeGetEnabled", [&] {
    require_pointer(enabled, "isEnabled");
    *enabled = static_cast<unsigned>(find_optional_node(exec, node).enabled);
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  return set_call("cudaGraphExecNodeSetParams", exec, node, [&] {
    require_pointer(params, "nodeParams");
    return any_node(*params);
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return set_call("cudaGraphExecKernelNodeSetParams", exec, node,
                  [&] { return kernel_node(params); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  return set_call("cudaGraphExecMemcpyNodeSetParams", exec, node,
                  [&] { return memcpy_node(params); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               void* dst, const void* src, size_t bytes,
                                               cudaMemcpyKind kind) {
  return set_call("cudaGraphExecMemcpyNodeSetParams1D", exec, node,
                  [&] { return memcpy_node(copy_1d(dst, src, bytes, kind)); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const void* symbol, const void* src,
                                                     size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind) {
  return set_call("cudaGraphExecMemcpyNodeSetParamsToSymbol", exec, node,
                  [&] { return memcpy_node(copy_to_symbol(symbol, src, bytes, offset, kind)); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       void* dst, const void* symbol, size_t bytes,
                                                       size_t offset, cudaMemcpyKind kind) {
  return set_call("cudaGraphExecMemcpyNodeSetParamsFromSymbol", exec, node,
                  [&] { return memcpy_node(copy_from_symbol(dst, symbol, bytes, offset, kind)); });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return set_call("cudaGraphExecMemsetNodeSetParams", exec, node,
                  [&] { return memset_node(params); });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  return set_call("cudaGraphExecHostNodeSetParams", exec, node, [&] { return host_node(params); });
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaGraph_t child) {
  return set_call("cudaGraphExecChildGraphNodeSetParams", exec, node,
                  [&] { return child_node(child); });
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return set_call("cudaGraphExecEventRecordNodeSetEvent", exec, node,
                  [&] { return event_record_node(event); });
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return set_call("cudaGraphExecEventWaitNodeSetEvent", exec, node,
                  [&] { return event_wait_node(event); });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
