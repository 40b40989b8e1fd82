#include "sim/cudart/work.h"

#include <mutex>

#include "sim/cudart/api.h"
#include "sim/cudart/conditional.h"
#include "sim/cudart/event.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/memory.h"
#include "sim/cudart/module.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

// Kernels of different host threads run one after the other, so that a seed gives one interleaving.
std::mutex& kernel_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

void run_kernel(const KernelWork& work) {
  // Held, as another thread may unload it while the kernel runs.
  const std::shared_ptr<Module> module = work.function->module();
  Launch launch;
  launch.kernel = &work.function->kernel();
  launch.program = &module->program();
  launch.grid = work.grid;
  launch.block = work.block;
  launch.cluster = work.cluster;
  launch.dynamic_shared_bytes = work.dynamic_shared_bytes;
  launch.cooperative = work.cooperative;
  launch.params = work.params;
  Gpu& simulated = gpu();
  const Unlocked unlocked;
  const std::lock_guard lock(kernel_mutex());
  simulated.run(launch);
}

struct Runner {
  void operator()(const EmptyWork& /*work*/) const {}
  void operator()(const KernelWork& work) const { run_kernel(work); }
  void operator()(const Copy& copy) const { run_copy(copy); }
  void operator()(const Fill& fill) const { run_fill(fill); }
  void operator()(const HostWork& work) const {
    const Unlocked unlocked;
    const WithinHostFunction within;
    work.function(work.argument);
  }
  void operator()(const EventRecordWork& work) const { work.event->record(); }
  void operator()(const EventWaitWork& /*work*/) const {}  // all that was recorded has run
  void operator()(const AllocWork& work) const { work.memory->allocate(); }
  void operator()(const FreeWork& work) const { free_device(work.address); }
  void operator()(const ChildGraphWork& work) const {
    for (const GraphNode* node : topological_order(*work.graph)) run(node->work);
  }
  void operator()(const ConditionalWork& work) const { run_conditional(work); }
};

struct Typer {
  cudaGraphNodeType operator()(const EmptyWork& /*work*/) const { return cudaGraphNodeTypeEmpty; }
  cudaGraphNodeType operator()(const KernelWork& /*work*/) const { return cudaGraphNodeTypeKernel; }
  cudaGraphNodeType operator()(const Copy& /*copy*/) const { return cudaGraphNodeTypeMemcpy; }
  cudaGraphNodeType operator()(const Fill& /*fill*/) const { return cudaGraphNodeTypeMemset; }
  cudaGraphNodeType operator()(const HostWork& /*work*/) const { return cudaGraphNodeTypeHost; }
  cudaGraphNodeType operator()(const EventRecordWork& /*work*/) const {
    return cudaGraphNodeTypeEventRecord;
  }
  cudaGraphNodeType operator()(const EventWaitWork& /*work*/) const {
    return cudaGraphNodeTypeWaitEvent;
  }
  cudaGraphNodeType operator()(const AllocWork& /*work*/) const {
    return cudaGraphNodeTypeMemAlloc;
  }
  cudaGraphNodeType operator()(const FreeWork& /*work*/) const { return cudaGraphNodeTypeMemFree; }
  cudaGraphNodeType operator()(const ChildGraphWork& /*work*/) const {
    return cudaGraphNodeTypeGraph;
  }
  cudaGraphNodeType operator()(const ConditionalWork& /*work*/) const {
    return cudaGraphNodeTypeConditional;
  }
};

}  // namespace

cudaGraphNodeType type_of(const Work& work) { return std::visit(Typer{}, work); }

std::vector<std::shared_ptr<Graph>> graphs_in(const Work& work) {
  if (const auto* child = std::get_if<ChildGraphWork>(&work)) return {child->graph};
  if (const auto* conditional = std::get_if<ConditionalWork>(&work)) return conditional->bodies;
  return {};
}

void run(const Work& work) { std::visit(Runner{}, work); }

}  // namespace mpfa::sim::cudart
