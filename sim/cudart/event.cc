#include "sim/cudart/event.h"

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/stream.h"

namespace mpfa::sim::cudart {
namespace {

HandleTable<Event>& events() {
  static auto& all = *new HandleTable<Event>;
  return all;
}

void create(cudaEvent_t* result, unsigned flags) {
  require_pointer(result, "event");
  constexpr unsigned kKnown =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  const bool is_shared = (flags & cudaEventInterprocess) != 0;
  require((flags & ~kKnown) == 0, cudaErrorInvalidValue, "flags = ", flags);
  require(!is_shared || (flags & cudaEventDisableTiming) != 0, cudaErrorInvalidValue,
          "cudaEventInterprocess needs cudaEventDisableTiming");
  auto event = std::make_shared<Event>();
  event->flags = flags;
  *result = to_handle<cudaEvent_t>(events().add(event));
}

void record(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  const std::shared_ptr<Event> event = find_event(handle);
  Stream& stream = find_stream(stream_handle);
  require(flags == cudaEventRecordDefault || flags == cudaEventRecordExternal,
          cudaErrorInvalidValue, "flags = ", flags);
  if (flags == cudaEventRecordExternal) {
    require(stream.capture != nullptr, cudaErrorIllegalState,
            "cudaEventRecordExternal is for streams that are being captured");
    capture_work(stream, EventRecordWork{event});
  } else if (stream.capture != nullptr) {
    capture_event_record(stream, *event);
  } else {
    issue(stream, EventRecordWork{event});
  }
}

void wait(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const std::shared_ptr<Event> event = find_event(handle);
  Stream& stream = find_stream(stream_handle);
  require(flags == cudaEventWaitDefault || flags == cudaEventWaitExternal, cudaErrorInvalidValue,
          "flags = ", flags);
  if (flags == cudaEventWaitExternal) {
    require(stream.capture != nullptr, cudaErrorIllegalState,
            "cudaEventWaitExternal is for streams that are being captured");
    capture_work(stream, EventWaitWork{event});
    return;
  }
  if (stream.capture == nullptr) forbid_implicit_dependency(stream);
  capture_event_wait(stream, *event);
}

// For what asks about a record that the device is to have done.
void require_not_captured(const Event& event) {
  if (event.capture == nullptr) return;
  require(event.capture->is_active, cudaErrorInvalidValue,
          "the event was recorded in a capture that has ended");
  invalidate(*event.capture);
  fail(cudaErrorCapturedEvent, "the event was recorded in a stream that is being captured");
}

void synchronize(const char* name, cudaEvent_t handle) {
  require_not_captured(*find_event(handle));
  forbid_unsafe_call(name);
}

float milliseconds_between(const Event& start, const Event& end) {
  for (const Event* event : {&start, &end}) {
    require((event->flags & cudaEventDisableTiming) == 0, cudaErrorInvalidResourceHandle,
            "an event was made with cudaEventDisableTiming");
    require(event->capture == nullptr, cudaErrorCapturedEvent,
            "an event was recorded in a stream that was being captured");
    require(event->was_recorded, cudaErrorInvalidResourceHandle, "an event was never recorded");
  }
  return std::chrono::duration<float, std::milli>(end.time - start.time).count();
}

}  // namespace

std::shared_ptr<Event> find_event(cudaEvent_t handle) {
  std::shared_ptr<Event> event = events().share(handle);
  require(event != nullptr, cudaErrorInvalidResourceHandle, "there is no event at ", handle);
  return event;
}

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return api_call("cudaEventCreate", [&] { create(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api_call("cudaEventCreateWithFlags", [&] { create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_call("cudaEventDestroy", [&] {
    require(events().remove(event) != nullptr, cudaErrorInvalidResourceHandle,
            "there is no event at ", event);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api_call("cudaEventRecord", [&] { record(event, stream, cudaEventRecordDefault); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return api_call("cudaEventRecordWithFlags", [&] { record(event, stream, flags); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return api_call("cudaStreamWaitEvent", [&] { wait(stream, event, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api_call("cudaEventQuery", [&] { synchronize("cudaEventQuery", event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api_call("cudaEventSynchronize", [&] { synchronize("cudaEventSynchronize", event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api_call("cudaEventElapsedTime", [&] {
    require_pointer(milliseconds, "ms");
    *milliseconds = milliseconds_between(*find_event(start), *find_event(end));
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
