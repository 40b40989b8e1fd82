// Pieces of work that a stream runs or a graph holds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "sim/cudart/copy.h"
#include "sim/cudart/fill.h"
#include "sim/cudart/function.h"
#include "sim/cudart/graph_memory.h"

namespace mpfa::sim::cudart {

class Conditional;
struct Event;
class Graph;

struct KernelWork {
  std::shared_ptr<Function> function;
  const void* handle = nullptr;  // as the program named the function
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;  // 1, 1, 1: none
  uint64_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> params;
  std::vector<void*> param_pointers;  // into params: what cudaGraphKernelNodeGetParams gives
  // What the program asked for besides; most have no meaning here.
  std::map<cudaLaunchAttributeID, cudaLaunchAttributeValue> attributes;
};

struct HostWork {
  cudaHostFn_t function = nullptr;
  void* argument = nullptr;
};

struct EmptyWork {};

struct EventRecordWork {
  std::shared_ptr<Event> event;
};

struct EventWaitWork {
  std::shared_ptr<Event> event;
};

struct AllocWork {
  std::shared_ptr<GraphMemory> memory;
  cudaMemAllocNodeParams params{};
};

struct FreeWork {
  void* address = nullptr;
};

struct ChildGraphWork {
  std::shared_ptr<Graph> graph;
};

struct ConditionalWork {
  std::shared_ptr<Conditional> conditional;
  cudaGraphConditionalNodeType type = cudaGraphCondTypeIf;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<std::vector<cudaGraph_t>> handles;  // of the bodies: what phGraph_out points to
};

using Work = std::variant<EmptyWork, KernelWork, Copy, Fill, HostWork, EventRecordWork,
                          EventWaitWork, AllocWork, FreeWork, ChildGraphWork, ConditionalWork>;

cudaGraphNodeType type_of(const Work& work);

// The graphs that a child graph node or a conditional node holds.
std::vector<std::shared_ptr<Graph>> graphs_in(const Work& work);

// Does the work, to its end. Throws Fault or ApiError.
void run(const Work& work);

}  // namespace mpfa::sim::cudart
