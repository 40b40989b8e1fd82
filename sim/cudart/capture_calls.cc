// The calls that begin, end and ask about stream capture.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/node_list.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

// Asking about the legacy stream while a blocking stream is captured is an error, but does no harm
// (cudaStreamIsCapturing).
cudaStreamCaptureStatus status_of(const Stream& stream) {
  require(!stream.is_legacy || !is_blocking_stream_captured(), cudaErrorStreamCaptureImplicit,
          "the legacy stream waits for a blocking stream that is being captured");
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->is_invalidated ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
}

struct CaptureInfo {
  cudaStreamCaptureStatus* status;
  unsigned long long* id;
  cudaGraph_t* graph;
  const cudaGraphNode_t** dependencies;
  const cudaGraphEdgeData** edges;
  size_t* count;
};

void get_info(const Stream& stream, const CaptureInfo& out) {
  require_pointer(out.status, "captureStatus_out");
  *out.status = status_of(stream);
  if (*out.status != cudaStreamCaptureStatusActive) return;
  const Capture& capture = *stream.capture;
  if (out.id != nullptr) *out.id = capture.id;
  if (out.graph != nullptr) {
    *out.graph = publish(capture.graph);
  }
  if (out.dependencies != nullptr) {
    *out.dependencies = reinterpret_cast<const cudaGraphNode_t*>(stream.tips.data());
  }
  if (out.edges != nullptr) *out.edges = nullptr;  // all are of the default kind
  if (out.count != nullptr) *out.count = stream.tips.size();
}

void update_dependencies(Stream& stream, const cudaGraphNode_t* nodes, size_t count,
                         unsigned flags) {
  require(stream.capture != nullptr, cudaErrorIllegalState, "the stream is not being captured");
  require(!stream.capture->is_invalidated, cudaErrorStreamCaptureInvalidated,
          "an earlier error invalidated the capture");
  const std::vector<GraphNode*> given = find_nodes(nodes, count);
  if (flags == cudaStreamSetCaptureDependencies) {
    stream.tips = given;
    return;
  }
  require(flags == cudaStreamAddCaptureDependencies, cudaErrorInvalidValue, "flags = ", flags,
          ": must be cudaStreamAddCaptureDependencies or cudaStreamSetCaptureDependencies");
  for (GraphNode* node : given) {
    if (std::find(stream.tips.begin(), stream.tips.end(), node) == stream.tips.end()) {
      stream.tips.push_back(node);
    }
  }
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api_call("cudaStreamBeginCapture",
                  [&] { begin_capture(find_stream(stream), mode, nullptr, {}); });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* /*edges*/, size_t count,
                                          cudaStreamCaptureMode mode) {
  return api_call("cudaStreamBeginCaptureToGraph", [&] {
    begin_capture(find_stream(stream), mode, find_graph(graph), find_nodes(dependencies, count));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api_call("cudaStreamEndCapture", [&] {
    if (graph != nullptr) *graph = nullptr;
    cudaGraph_t captured = publish(end_capture(find_stream(stream)));
    if (graph != nullptr) *graph = captured;  // of a capture into a graph, the program has it
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api_call("cudaStreamIsCapturing", [&] {
    require_pointer(status, "pCaptureStatus");
    *status = status_of(find_stream(stream));
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return api_call("cudaStreamGetCaptureInfo", [&] {
    get_info(find_stream(stream), {status, id, graph, dependencies, edges, count});
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* /*edges*/, size_t count,
                                                unsigned flags) {
  return api_call("cudaStreamUpdateCaptureDependencies",
                  [&] { update_dependencies(find_stream(stream), nodes, count, flags); });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api_call("cudaThreadExchangeStreamCaptureMode", [&] {
    require_pointer(mode, "mode");
    require(*mode >= cudaStreamCaptureModeGlobal && *mode <= cudaStreamCaptureModeRelaxed,
            cudaErrorInvalidValue, "mode = ", static_cast<int>(*mode), ": must be from 0 to 2");
    *mode = exchange_thread_mode(*mode);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
