// Streams. Each piece of work is done when it is issued; a stream that is being captured adds it to
// a graph instead.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/cudart/work.h"

namespace mpfa::sim::cudart {

struct Capture;
struct GraphNode;

struct Stream {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool is_legacy = false;  // the default stream, which waits for the blocking ones
  std::map<cudaLaunchAttributeID, cudaLaunchAttributeValue> attributes;

  std::shared_ptr<Capture> capture;  // nullptr: not being captured
  std::vector<GraphNode*> tips;      // of the capture: what the next node depends on

  bool is_blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};

// Of a handle, or of cudaStreamLegacy, cudaStreamPerThread or null, which is the legacy stream but
// within NullIsPerThread. Throws ApiError for what is no stream.
Stream& find_stream(cudaStream_t handle);

// In its scope, null means the calling thread's stream.
class NullIsPerThread {
 public:
  NullIsPerThread();
  ~NullIsPerThread();
  NullIsPerThread(const NullIsPerThread&) = delete;
  NullIsPerThread& operator=(const NullIsPerThread&) = delete;

 private:
  bool before_;
};
bool is_null_per_thread();

// Does the work, or adds it to the stream's graph.
void issue(Stream& stream, Work work);
void issue(cudaStream_t stream, Work work);
// The same, of what check_copy and check_fill let pass.
void issue_checked(cudaStream_t stream, const Copy& copy);
void issue_checked(cudaStream_t stream, const Fill& fill);

}  // namespace mpfa::sim::cudart
