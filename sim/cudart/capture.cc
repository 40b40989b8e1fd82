#include "sim/cudart/capture.h"

#include <algorithm>
#include <set>

#include "sim/cudart/api.h"

namespace mpfa::sim::cudart {
namespace {

std::vector<std::shared_ptr<Capture>>& active_captures() {
  static auto& all = *new std::vector<std::shared_ptr<Capture>>;
  return all;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void require_valid(const Capture& capture) {
  require(!capture.is_invalidated, cudaErrorStreamCaptureInvalidated,
          "an earlier error invalidated the capture");
}

// The nodes that `tips` are or depend on.
std::set<const GraphNode*> ancestry(const std::vector<GraphNode*>& tips) {
  std::set<const GraphNode*> seen;
  std::vector<const GraphNode*> open(tips.begin(), tips.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

// Whether some stream's last work is not waited for by the origin.
bool has_unjoined_work(const Capture& capture) {
  const std::set<const GraphNode*> joined = ancestry(capture.origin->tips);
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
    return std::any_of(stream->tips.begin(), stream->tips.end(),
                       [&](const GraphNode* tip) { return !joined.contains(tip); });
  });
}

bool has_blocking_stream(const Capture& capture) {
  const auto& members = capture.streams;
  return std::any_of(members.begin(), members.end(),
                     [](const Stream* member) { return member->is_blocking(); });
}

void finish(Capture& capture) {
  for (Stream* stream : capture.streams) {
    stream->capture = nullptr;
    stream->tips.clear();
  }
  capture.streams.clear();
  capture.is_active = false;
  std::erase_if(active_captures(), [&](const auto& active) { return active.get() == &capture; });
}

void join(Stream& stream, const std::shared_ptr<Capture>& capture) {
  stream.capture = capture;
  stream.tips.clear();
  capture->streams.push_back(&stream);
}

void add_tips(Stream& stream, const std::vector<GraphNode*>& nodes) {
  for (GraphNode* node : nodes) {
    if (std::find(stream.tips.begin(), stream.tips.end(), node) == stream.tips.end()) {
      stream.tips.push_back(node);
    }
  }
}

// Whether the capture's mode and the calling thread's forbid unsafe calls
// (cudaThreadExchangeStreamCaptureMode).
bool forbids_unsafe_calls(const Capture& capture) {
  const bool is_this_thread = capture.thread == std::this_thread::get_id();
  switch (thread_mode) {
    case cudaStreamCaptureModeRelaxed:
      return false;
    case cudaStreamCaptureModeThreadLocal:
      return is_this_thread && capture.mode != cudaStreamCaptureModeRelaxed;
    case cudaStreamCaptureModeGlobal:
      break;
  }
  if (capture.mode == cudaStreamCaptureModeGlobal) return true;
  return is_this_thread && capture.mode == cudaStreamCaptureModeThreadLocal;
}

}  // namespace

void begin_capture(Stream& stream, cudaStreamCaptureMode mode, std::shared_ptr<Graph> graph,
                   std::vector<GraphNode*> dependencies) {
  require(mode >= cudaStreamCaptureModeGlobal && mode <= cudaStreamCaptureModeRelaxed,
          cudaErrorInvalidValue, "mode = ", static_cast<int>(mode), ": must be from 0 to 2");
  require(!stream.is_legacy, cudaErrorStreamCaptureUnsupported,
          "the legacy stream cannot be captured");
  require(stream.capture == nullptr, cudaErrorIllegalState, "the stream is being captured already");
  static uint64_t last_id = 0;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  capture->graph = graph != nullptr ? std::move(graph) : std::make_shared<Graph>();
  active_captures().push_back(capture);
  join(stream, capture);
  stream.tips = std::move(dependencies);
}

std::shared_ptr<Graph> end_capture(Stream& stream) {
  require(stream.capture != nullptr, cudaErrorIllegalState, "the stream is not being captured");
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin != &stream) {
    invalidate(*capture);
    fail(cudaErrorStreamCaptureUnmatched, "the capture began in another stream");
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    finish(*capture);
    fail(cudaErrorStreamCaptureWrongThread, "the capture began in another thread");
  }
  const bool unjoined = has_unjoined_work(*capture);
  finish(*capture);
  require_valid(*capture);
  require(!unjoined, cudaErrorStreamCaptureUnjoined,
          "a stream joined the capture, and the stream in which that began does not wait for its "
          "work");
  return capture->graph;
}

void invalidate(Capture& capture) { capture.is_invalidated = true; }

GraphNode& capture_work(Stream& stream, Work work) {
  require_valid(*stream.capture);
  GraphNode& node = stream.capture->graph->add(std::move(work), stream.tips);
  stream.tips = {&node};
  return node;
}

void capture_event_record(Stream& stream, Event& event) {
  require_valid(*stream.capture);
  event.capture = stream.capture;
  event.nodes = stream.tips;
  event.was_recorded = true;
}

void capture_event_wait(Stream& stream, const Event& event) {
  if (event.capture == nullptr) {
    if (stream.capture == nullptr) return;
    require_valid(*stream.capture);
    if (!event.was_recorded) return;
    invalidate(*stream.capture);
    fail(cudaErrorStreamCaptureIsolation, "the event was recorded outside the capture");
  }
  require(event.capture->is_active, cudaErrorInvalidValue,
          "the event was recorded in a capture that has ended");
  require_valid(*event.capture);
  if (stream.capture == nullptr) {
    require(!stream.is_legacy, cudaErrorStreamCaptureImplicit,
            "the legacy stream cannot wait for captured work");
    join(stream, event.capture);
  }
  if (stream.capture != event.capture) {
    invalidate(*stream.capture);
    invalidate(*event.capture);
    fail(cudaErrorStreamCaptureMerge, "the event was recorded in another capture");
  }
  add_tips(stream, event.nodes);
}

bool is_blocking_stream_captured() {
  const auto& all = active_captures();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& capture) { return has_blocking_stream(*capture); });
}

void forbid_implicit_dependency(const Stream& stream) {
  if (!stream.is_legacy) return;
  const bool any = is_blocking_stream_captured();
  for (const auto& capture : active_captures()) {
    if (has_blocking_stream(*capture)) invalidate(*capture);
  }
  require(!any, cudaErrorStreamCaptureImplicit,
          "the legacy stream would wait for a blocking stream that is being captured");
}

void forbid_unsafe_call(const char* name) {
  bool any = false;
  for (const auto& capture : active_captures()) {
    if (!forbids_unsafe_calls(*capture)) continue;
    invalidate(*capture);
    any = true;
  }
  require(!any, cudaErrorStreamCaptureUnsupported, name, " is not allowed during a capture");
}

void forbid_device_synchronization() {
  const bool any = !active_captures().empty();
  for (const auto& capture : active_captures()) invalidate(*capture);
  require(!any, cudaErrorStreamCaptureUnsupported,
          "the device cannot be waited for during a capture");
}

void forbid_synchronization(const Stream& stream) {
  if (stream.capture != nullptr) {
    invalidate(*stream.capture);
    fail(cudaErrorStreamCaptureUnsupported, "a stream that is being captured cannot be waited for");
  }
  forbid_implicit_dependency(stream);
  forbid_unsafe_call("synchronization");
}

cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

void leave_capture(Stream& stream) {
  if (stream.capture == nullptr) return;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin == &stream) {
    finish(*capture);
    return;
  }
  std::erase(capture->streams, &stream);
  stream.capture = nullptr;
}

}  // namespace mpfa::sim::cudart
