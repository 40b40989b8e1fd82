// Stream capture: the sequence of work that streams record into a graph
// (CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture").
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "sim/cudart/event.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {

struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::shared_ptr<Graph> graph;
  std::vector<Stream*> streams;  // the origin and those that joined
  bool is_active = true;
  bool is_invalidated = false;
};

void begin_capture(Stream& stream, cudaStreamCaptureMode mode, std::shared_ptr<Graph> graph,
                   std::vector<GraphNode*> dependencies);
// The graph; throws ApiError, the capture being over all the same.
std::shared_ptr<Graph> end_capture(Stream& stream);
// After an error within it. The capture goes on, but ends in an error.
void invalidate(Capture& capture);

// Adds to the graph of a stream that is being captured.
GraphNode& capture_work(Stream& stream, Work work);
void capture_event_record(Stream& stream, Event& event);
// Also of a stream that is not being captured, which then joins.
void capture_event_wait(Stream& stream, const Event& event);

// Whether a stream that the legacy stream waits for is being captured.
bool is_blocking_stream_captured();

// Throw ApiError, and invalidate what is being captured:
// work for the legacy stream, which would wait for a blocking stream's captured work;
void forbid_implicit_dependency(const Stream& stream);
// a call that might make unsafe what is being captured, by the modes of captures and threads;
void forbid_unsafe_call(const char* name);
// a synchronization of the device, or of this stream.
void forbid_device_synchronization();
void forbid_synchronization(const Stream& stream);

// The calling thread's mode, and the one before.
cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode);

// Of a stream that is destroyed.
void leave_capture(Stream& stream);

}  // namespace mpfa::sim::cudart
