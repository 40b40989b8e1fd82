#include "sim/cudart/node_work.h"

#include "sim/cudart/api.h"
#include "sim/cudart/conditional.h"
#include "sim/cudart/event.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/launch.h"

namespace mpfa::sim::cudart {

Work kernel_node(const cudaKernelNodeParams* params) {
  require_pointer(params, "pNodeParams");
  return make_kernel_work(*params);
}

Work memcpy_node(const Copy& copy) {
  check_copy(copy);
  return copy;
}

Work memcpy_node(const cudaMemcpy3DParms* params) {
  require_pointer(params, "pNodeParams");
  return memcpy_node(copy_3d(*params));
}

Work memset_node(const cudaMemsetParams* params) {
  require_pointer(params, "pMemsetParams");
  const Fill fill = fill_of(*params);
  check_fill(fill);
  return fill;
}

Work host_node(const cudaHostNodeParams* params) {
  require_pointer(params, "pNodeParams");
  require(params->fn != nullptr, cudaErrorInvalidValue, "fn is null");
  return HostWork{params->fn, params->userData};
}

Work child_node(cudaGraph_t graph) {
  ChildGraphWork work{find_graph(graph)->clone()};
  topological_order(*work.graph);
  publish(work.graph);
  return work;
}

Work event_record_node(cudaEvent_t event) { return EventRecordWork{find_event(event)}; }

Work event_wait_node(cudaEvent_t event) { return EventWaitWork{find_event(event)}; }

Work alloc_node(cudaMemAllocNodeParams* params) {
  require_pointer(params, "nodeParams");
  require(params->bytesize != 0, cudaErrorInvalidValue, "bytesize is 0");
  AllocWork work;
  work.memory = std::make_shared<GraphMemory>(params->bytesize);
  params->dptr = work.memory->address();
  work.params = *params;
  return work;
}

Work free_node(void* address) {
  require_pointer(address, "dptr");
  return FreeWork{address};
}

namespace {

// The two kinds of kernel parameters have the same members.
cudaKernelNodeParams to_v1(const cudaKernelNodeParamsV2& params) {
  cudaKernelNodeParams v1{};
  v1.func = params.func;
  v1.gridDim = params.gridDim;
  v1.blockDim = params.blockDim;
  v1.sharedMemBytes = params.sharedMemBytes;
  v1.kernelParams = params.kernelParams;
  v1.extra = params.extra;
  return v1;
}

cudaMemsetParams to_v1(const cudaMemsetParamsV2& params) {
  return {params.dst, params.pitch, params.value, params.elementSize, params.width, params.height};
}

Work alloc_node_v2(cudaMemAllocNodeParamsV2& params) {
  cudaMemAllocNodeParams v1{};
  v1.poolProps = params.poolProps;
  v1.accessDescs = params.accessDescs;
  v1.accessDescCount = params.accessDescCount;
  v1.bytesize = params.bytesize;
  Work work = alloc_node(&v1);
  params.dptr = v1.dptr;
  return work;
}

}  // namespace

Work any_node(cudaGraphNodeParams& params) {
  switch (params.type) {
    case cudaGraphNodeTypeEmpty:
      return EmptyWork{};
    case cudaGraphNodeTypeKernel:
      return make_kernel_work(to_v1(params.kernel));
    case cudaGraphNodeTypeMemcpy:
      return memcpy_node(&params.memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
      const cudaMemsetParams v1 = to_v1(params.memset);
      return memset_node(&v1);
    }
    case cudaGraphNodeTypeHost:
      require(params.host.fn != nullptr, cudaErrorInvalidValue, "fn is null");
      return HostWork{params.host.fn, params.host.userData};
    case cudaGraphNodeTypeGraph:
      return child_node(params.graph.graph);
    case cudaGraphNodeTypeEventRecord:
      return event_record_node(params.eventRecord.event);
    case cudaGraphNodeTypeWaitEvent:
      return event_wait_node(params.eventWait.event);
    case cudaGraphNodeTypeMemAlloc:
      return alloc_node_v2(params.alloc);
    case cudaGraphNodeTypeMemFree:
      return free_node(params.free.dptr);
    case cudaGraphNodeTypeConditional:
      return conditional_node(params.conditional);
    default:
      break;
  }
  fail(cudaErrorNotSupported, "graph nodes of type ", static_cast<int>(params.type),
       " are not simulated");
}

void replace_work(Work& work, Work replacement) {
  require(work.index() == replacement.index(), cudaErrorInvalidValue,
          "the node is of another type than its new parameters");
  // What a kernel node's attributes said stays.
  if (const auto* before = std::get_if<KernelWork>(&work)) {
    auto& after = std::get<KernelWork>(replacement);
    after.attributes = before->attributes;
    after.cooperative = before->cooperative;
    if (before->attributes.contains(cudaLaunchAttributeClusterDimension)) {
      after.cluster = before->cluster;
    }
    check_kernel_work(after);
  }
  work = std::move(replacement);
}

}  // namespace mpfa::sim::cudart
