// The calls that add nodes to graphs, and get and set their parameters.
#include <cuda_runtime_api.h>

#include "sim/cudart/api.h"
#include "sim/cudart/event.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/launch.h"
#include "sim/cudart/node_list.h"
#include "sim/cudart/node_work.h"
#include "sim/cudart/symbol_copy.h"

namespace mpfa::sim::cudart {
namespace {

struct Place {
  cudaGraphNode_t* node;  // out
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
};

cudaError_t add_call(const char* name, const Place& place, const std::function<Work()>& work) {
  return api_call(name, [&] {
    require_pointer(place.node, "pGraphNode");
    Graph& graph = *find_graph(place.graph);
    const std::vector<GraphNode*> dependencies = find_nodes(place.dependencies, place.count);
    *place.node = to_handle<cudaGraphNode_t>(&graph.add(work(), dependencies));
  });
}

cudaError_t set_call(const char* name, cudaGraphNode_t node, const std::function<Work()>& work) {
  return api_call(name, [&] { replace_work(find_node(node).work, work()); });
}

template <typename T>
T& work_of(cudaGraphNode_t node) {
  T* work = std::get_if<T>(&find_node(node).work);
  require(work != nullptr, cudaErrorInvalidValue, "the graph node is of another type");
  return *work;
}

}  // namespace

extern "C" {

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* /*edges*/, size_t count,
                             cudaGraphNodeParams* params) {
  return add_call("cudaGraphAddNode", {node, graph, dependencies, count}, [&] {
    require_pointer(params, "nodeParams");
    return any_node(*params);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return set_call("cudaGraphNodeSetParams", node, [&] {
    require_pointer(params, "nodeParams");
    return any_node(*params);
  });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, size_t count) {
  return add_call("cudaGraphAddEmptyNode", {node, graph, dependencies, count},
                  [] { return EmptyWork{}; });
}

// --- kernels ---

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaKernelNodeParams* params) {
  return add_call("cudaGraphAddKernelNode", {node, graph, dependencies, count},
                  [&] { return kernel_node(params); });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return set_call("cudaGraphKernelNodeSetParams", node, [&] { return kernel_node(params); });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  return api_call("cudaGraphKernelNodeGetParams", [&] {
    require_pointer(params, "pNodeParams");
    *params = to_params(work_of<KernelWork>(node));
  });
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            const cudaLaunchAttributeValue* value) {
  return api_call("cudaGraphKernelNodeSetAttribute", [&] {
    require_pointer(value, "value");
    KernelWork changed = work_of<KernelWork>(node);
    set_attribute(changed, id, *value);
    check_kernel_work(changed);
    work_of<KernelWork>(node) = std::move(changed);
  });
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            cudaLaunchAttributeValue* value) {
  return api_call("cudaGraphKernelNodeGetAttribute", [&] {
    require_pointer(value, "value_out");
    const KernelWork& work = work_of<KernelWork>(node);
    *value = {};
    const auto set = work.attributes.find(id);
    if (set != work.attributes.end()) *value = set->second;
  });
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t dst, cudaGraphNode_t src) {
  return api_call("cudaGraphKernelNodeCopyAttributes", [&] {
    KernelWork changed = work_of<KernelWork>(dst);
    for (const auto& [id, value] : work_of<KernelWork>(src).attributes) {
      set_attribute(changed, id, value);
    }
    check_kernel_work(changed);
    work_of<KernelWork>(dst) = std::move(changed);
  });
}

// --- copies ---

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaMemcpy3DParms* params) {
  return add_call("cudaGraphAddMemcpyNode", {node, graph, dependencies, count},
                  [&] { return memcpy_node(params); });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* dependencies, size_t count, void* dst,
                                     const void* src, size_t bytes, cudaMemcpyKind kind) {
  return add_call("cudaGraphAddMemcpyNode1D", {node, graph, dependencies, count},
                  [&] { return memcpy_node(copy_1d(dst, src, bytes, kind)); });
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, size_t count,
                                           const void* symbol, const void* src, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind) {
  return add_call("cudaGraphAddMemcpyNodeToSymbol", {node, graph, dependencies, count},
                  [&] { return memcpy_node(copy_to_symbol(symbol, src, bytes, offset, kind)); });
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t count,
                                             void* dst, const void* symbol, size_t bytes,
                                             size_t offset, cudaMemcpyKind kind) {
  return add_call("cudaGraphAddMemcpyNodeFromSymbol", {node, graph, dependencies, count},
                  [&] { return memcpy_node(copy_from_symbol(dst, symbol, bytes, offset, kind)); });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return set_call("cudaGraphMemcpyNodeSetParams", node, [&] { return memcpy_node(params); });
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src,
                                           size_t bytes, cudaMemcpyKind kind) {
  return set_call("cudaGraphMemcpyNodeSetParams1D", node,
                  [&] { return memcpy_node(copy_1d(dst, src, bytes, kind)); });
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol,
                                                 const void* src, size_t bytes, size_t offset,
                                                 cudaMemcpyKind kind) {
  return set_call("cudaGraphMemcpyNodeSetParamsToSymbol", node,
                  [&] { return memcpy_node(copy_to_symbol(symbol, src, bytes, offset, kind)); });
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* dst,
                                                   const void* symbol, size_t bytes, size_t offset,
                                                   cudaMemcpyKind kind) {
  return set_call("cudaGraphMemcpyNodeSetParamsFromSymbol", node,
                  [&] { return memcpy_node(copy_from_symbol(dst, symbol, bytes, offset, kind)); });
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  return api_call("cudaGraphMemcpyNodeGetParams", [&] {
    require_pointer(params, "pNodeParams");
    *params = to_params(work_of<Copy>(node));
  });
}

// --- fills ---

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaMemsetParams* params) {
  return add_call("cudaGraphAddMemsetNode", {node, graph, dependencies, count},
                  [&] { return memset_node(params); });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return set_call("cudaGraphMemsetNodeSetParams", node, [&] { return memset_node(params); });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return api_call("cudaGraphMemsetNodeGetParams", [&] {
    require_pointer(params, "pNodeParams");
    *params = to_params(work_of<Fill>(node));
  });
}

// --- functions of the host ---

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* dependencies, size_t count,
                                 const cudaHostNodeParams* params) {
  return add_call("cudaGraphAddHostNode", {node, graph, dependencies, count},
                  [&] { return host_node(params); });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return set_call("cudaGraphHostNodeSetParams", node, [&] { return host_node(params); });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  return api_call("cudaGraphHostNodeGetParams", [&] {
    require_pointer(params, "pNodeParams");
    const HostWork& work = work_of<HostWork>(node);
    *params = {};
    params->fn = work.function;
    params->userData = work.argument;
  });
}

// --- child graphs ---

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* dependencies, size_t count,
                                       cudaGraph_t child) {
  return add_call("cudaGraphAddChildGraphNode", {node, graph, dependencies, count},
                  [&] { return child_node(child); });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return api_call("cudaGraphChildGraphNodeGetGraph", [&] {
    require_pointer(graph, "pGraph");
    *graph = to_handle<cudaGraph_t>(work_of<ChildGraphWork>(node).graph.get());
  });
}

// --- events ---

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* dependencies, size_t count,
                                        cudaEvent_t event) {
  return add_call("cudaGraphAddEventRecordNode", {node, graph, dependencies, count},
                  [&] { return event_record_node(event); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                      const cudaGraphNode_t* dependencies, size_t count,
                                      cudaEvent_t event) {
  return add_call("cudaGraphAddEventWaitNode", {node, graph, dependencies, count},
                  [&] { return event_wait_node(event); });
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_call("cudaGraphEventRecordNodeSetEvent", node,
                  [&] { return event_record_node(event); });
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_call("cudaGraphEventWaitNodeSetEvent", node, [&] { return event_wait_node(event); });
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return api_call("cudaGraphEventRecordNodeGetEvent", [&] {
    require_pointer(event, "event_out");
    *event = to_handle<cudaEvent_t>(work_of<EventRecordWork>(node).event.get());
  });
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return api_call("cudaGraphEventWaitNodeGetEvent", [&] {
    require_pointer(event, "event_out");
    *event = to_handle<cudaEvent_t>(work_of<EventWaitWork>(node).event.get());
  });
}

// --- memory ---

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* dependencies, size_t count,
                                     cudaMemAllocNodeParams* params) {
  return add_call("cudaGraphAddMemAllocNode", {node, graph, dependencies, count},
                  [&] { return alloc_node(params); });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                    const cudaGraphNode_t* dependencies, size_t count,
                                    void* address) {
  return add_call("cudaGraphAddMemFreeNode", {node, graph, dependencies, count},
                  [&] { return free_node(address); });
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* params) {
  return api_call("cudaGraphMemAllocNodeGetParams", [&] {
    require_pointer(params, "params_out");
    *params = work_of<AllocWork>(node).params;
  });
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* address) {
  return api_call("cudaGraphMemFreeNodeGetParams", [&] {
    require_pointer(address, "dptr_out");
    *static_cast<void**>(address) = work_of<FreeWork>(node).address;
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
