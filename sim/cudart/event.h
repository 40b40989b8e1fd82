// Events: points in a stream's work. Work is done as it is issued, so an event is complete when it
// is recorded, unless the record was captured into a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <vector>

namespace mpfa::sim::cudart {

struct Capture;
struct GraphNode;

struct Event {
  using Clock = std::chrono::steady_clock;

  unsigned flags = 0;
  bool was_recorded = false;
  Clock::time_point time;
  // Recorded in a stream that was being captured: what a wait for it depends on. A capture that has
  // ended is kept, so that its events can be told from those never recorded.
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> nodes;

  void record() {
    was_recorded = true;
    time = Clock::now();
    capture = nullptr;
    nodes.clear();
  }
};

// Throws ApiError for what is no event.
std::shared_ptr<Event> find_event(cudaEvent_t handle);

}  // namespace mpfa::sim::cudart
