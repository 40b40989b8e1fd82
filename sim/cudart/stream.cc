#include "sim/cudart/stream.h"

#include <algorithm>
#include <utility>

#include "sim/cudart/api.h"
#include "sim/cudart/capture.h"
#include "sim/cudart/handle_table.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

HandleTable<Stream>& streams() {
  static auto& all = *new HandleTable<Stream>;
  return all;
}

uint64_t next_stream_id() {
  static uint64_t last = 0;
  return ++last;
}

Stream& legacy_stream() {
  static auto& stream = []() -> Stream& {
    auto& made = *new Stream;
    made.is_legacy = true;
    made.id = next_stream_id();
    return made;
  }();
  return stream;
}

// Of the calling thread. It stays when the thread ends: a capture may hold it.
Stream& per_thread_stream() {
  static auto& of_all_threads = *new std::vector<std::unique_ptr<Stream>>;
  thread_local Stream* stream = nullptr;
  if (stream == nullptr) {
    stream = of_all_threads.emplace_back(std::make_unique<Stream>()).get();
    stream->id = next_stream_id();
  }
  return *stream;
}

thread_local bool null_is_per_thread = false;

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;  // of an H200

void create(cudaStream_t* result, unsigned flags, int priority) {
  require_pointer(result, "pStream");
  require(flags == cudaStreamDefault || flags == cudaStreamNonBlocking, cudaErrorInvalidValue,
          "flags = ", flags, ": must be cudaStreamDefault or cudaStreamNonBlocking");
  auto stream = std::make_shared<Stream>();
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->id = next_stream_id();
  *result = to_handle<cudaStream_t>(streams().add(stream));
}

// What a program's cudaStreamCallback_t takes is not what a host node's function takes.
void run_callback(Stream& stream, cudaStream_t handle, cudaStreamCallback_t callback, void* data) {
  if (stream.capture != nullptr) {
    invalidate(*stream.capture);
    fail(cudaErrorStreamCaptureUnsupported, "callbacks cannot be captured");
  }
  forbid_implicit_dependency(stream);
  const Unlocked unlocked;
  const WithinHostFunction within;
  callback(handle, cudaSuccess, data);
}

}  // namespace

NullIsPerThread::NullIsPerThread() : before_(std::exchange(null_is_per_thread, true)) {}
NullIsPerThread::~NullIsPerThread() { null_is_per_thread = before_; }
bool is_null_per_thread() { return null_is_per_thread; }

Stream& find_stream(cudaStream_t handle) {
  if (handle == nullptr && null_is_per_thread) return per_thread_stream();
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy_stream();
  if (handle == cudaStreamPerThread) return per_thread_stream();
  Stream* stream = streams().find(handle);
  require(stream != nullptr, cudaErrorInvalidResourceHandle, "there is no stream at ", handle);
  return *stream;
}

void issue(Stream& stream, Work work) {
  if (stream.capture != nullptr) {
    capture_work(stream, std::move(work));
    return;
  }
  forbid_implicit_dependency(stream);
  run(work);
}

void issue(cudaStream_t stream, Work work) { issue(find_stream(stream), std::move(work)); }

void issue_checked(cudaStream_t stream, const Copy& copy) {
  check_copy(copy);
  issue(stream, copy);
}

void issue_checked(cudaStream_t stream, const Fill& fill) {
  check_fill(fill);
  issue(stream, fill);
}

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return api_call("cudaStreamCreate", [&] { create(stream, cudaStreamDefault, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return api_call("cudaStreamCreateWithFlags", [&] { create(stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return api_call("cudaStreamCreateWithPriority", [&] { create(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api_call("cudaStreamDestroy", [&] {
    const std::shared_ptr<Stream> stream = streams().share(handle);
    require(stream != nullptr, cudaErrorInvalidResourceHandle, "there is no stream to destroy at ",
            handle);
    leave_capture(*stream);
    streams().remove(handle);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api_call("cudaStreamSynchronize", [&] { forbid_synchronization(find_stream(stream)); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api_call("cudaStreamQuery", [&] { forbid_synchronization(find_stream(stream)); });
}

cudaError_t cudaDeviceSynchronize() {
  return api_call("cudaDeviceSynchronize", [] { forbid_device_synchronization(); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api_call("cudaDeviceGetStreamPriorityRange", [&] {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return api_call("cudaStreamGetPriority", [&] {
    require_pointer(priority, "priority");
    *priority = find_stream(stream).priority;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return api_call("cudaStreamGetFlags", [&] {
    require_pointer(flags, "flags");
    *flags = find_stream(stream).flags;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return api_call("cudaStreamGetId", [&] {
    require_pointer(id, "streamId");
    *id = find_stream(stream).id;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return api_call("cudaStreamGetDevice", [&] {
    require_pointer(device, "device");
    find_stream(stream);
    *device = 0;
  });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID id,
                                   cudaLaunchAttributeValue* value) {
  return api_call("cudaStreamGetAttribute", [&] {
    require_pointer(value, "value_out");
    const Stream& found = find_stream(stream);
    *value = {};
    if (id == cudaLaunchAttributePriority) value->priority = found.priority;
    const auto set = found.attributes.find(id);
    if (set != found.attributes.end()) *value = set->second;
  });
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID id,
                                   const cudaLaunchAttributeValue* value) {
  return api_call("cudaStreamSetAttribute", [&] {
    require_pointer(value, "value");
    find_stream(stream).attributes[id] = *value;
  });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src) {
  return api_call("cudaStreamCopyAttributes",
                  [&] { find_stream(dst).attributes = find_stream(src).attributes; });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* address, size_t /*bytes*/,
                                     unsigned /*flags*/) {
  return api_call("cudaStreamAttachMemAsync", [&] {
    find_stream(stream);
    check_device_range("devPtr", address, 1);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return api_call("cudaLaunchHostFunc", [&] {
    require(function != nullptr, cudaErrorInvalidValue, "fn is null");
    issue(stream, HostWork{function, argument});
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return api_call("cudaStreamAddCallback", [&] {
    require(callback != nullptr && flags == 0, cudaErrorInvalidValue,
            "the callback must not be null, and flags must be 0");
    run_callback(find_stream(stream), stream, callback, data);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
