#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

namespace mpfa::sim {
namespace {

constexpr auto kGlobal = cudaStreamCaptureModeGlobal;
constexpr auto kThreadLocal = cudaStreamCaptureModeThreadLocal;
constexpr auto kRelaxed = cudaStreamCaptureModeRelaxed;

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  EXPECT_CUDA(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  return status;
}

class CaptureTest : public CudartTest {
 protected:
  void begin(cudaStreamCaptureMode mode = kGlobal) {
    ASSERT_CUDA(cudaStreamBeginCapture(stream_, mode));
  }

  // Ends the capture, which is to give a graph.
  void end() {
    EXPECT_EQ(status_of(stream_), cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_NE(graph, nullptr);
    EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(status_of(stream_), cudaStreamCaptureStatusNone);
  }

  // Ends the capture, which an error has invalidated.
  void end_invalidated() {
    EXPECT_EQ(status_of(stream_), cudaStreamCaptureStatusInvalidated);
    auto* graph = reinterpret_cast<cudaGraph_t>(1);
    EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status_of(stream_), cudaStreamCaptureStatusNone);
  }

  cudaError_t launch_empty(cudaStream_t stream, unsigned threads = 1) {
    launch_add(1, threads, 0, stream, nullptr, nullptr, 0);
    return cudaGetLastError();
  }

  TestStream stream_;
  TestStream other_;
  TestEvent event_;
  DeviceArray<char> device_{64};
  std::vector<char> host_ = std::vector<char>(64);
};

TEST_F(CaptureTest, BeginAndEnd) {
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(nullptr, kGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_CUDA(cudaStreamBeginCapture(stream_, static_cast<cudaStreamCaptureMode>(9)),
              cudaErrorInvalidValue);
  EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
  begin();
  EXPECT_CUDA(cudaStreamBeginCapture(stream_, kGlobal), cudaErrorIllegalState);
  end();
}

// What a call does to a capture.
struct Call {
  const char* name;
  cudaStreamCaptureMode mode;
  std::function<cudaError_t()> call;
  cudaError_t expected;
  bool invalidates;
};

TEST_F(CaptureTest, CallsDuringACapture) {
  constexpr auto kUnsupported = cudaErrorStreamCaptureUnsupported;
  constexpr auto kImplicit = cudaErrorStreamCaptureImplicit;
  constexpr auto kTo = cudaMemcpyHostToDevice;
  TestEvent recorded;
  ASSERT_CUDA(cudaEventRecord(recorded, nullptr));
  char* d = device_.data();
  const char* h = host_.data();
  void* memory = nullptr;
  cudaStream_t made_stream = nullptr;
  cudaEvent_t made_event = nullptr;
  const auto malloc = [&] { return cudaMalloc(&memory, 16); };
  const auto memcpy = [&] { return cudaMemcpy(d, h, 16, kTo); };
  const auto memset = [&] { return cudaMemset(d, 0, 16); };
  const Call calls[] = {
      {"synchronize it", kGlobal, [&] { return cudaStreamSynchronize(stream_); }, kUnsupported,
       true},
      {"query it", kGlobal, [&] { return cudaStreamQuery(stream_); }, kUnsupported, true},
      {"device", kGlobal, cudaDeviceSynchronize, kUnsupported, true},
      {"device, relaxed", kRelaxed, cudaDeviceSynchronize, kUnsupported, true},
      {"malloc", kGlobal, malloc, kUnsupported, true},
      {"malloc, thread local", kThreadLocal, malloc, kUnsupported, true},
      {"free", kGlobal, [&] { return cudaFree(nullptr); }, kUnsupported, true},
      {"malloc host", kGlobal, [&] { return cudaMallocHost(&memory, 16); }, kUnsupported, true},
      {"memcpy", kGlobal, memcpy, kImplicit, true},
      {"memcpy, relaxed", kRelaxed, memcpy, kImplicit, true},
      {"memset", kGlobal, memset, kImplicit, true},
      {"legacy copy", kGlobal, [&] { return cudaMemcpyAsync(d, h, 16, kTo, nullptr); }, kImplicit,
       true},
      {"legacy kernel", kGlobal, [&] { return launch_empty(nullptr); }, kImplicit, true},
      {"synchronize legacy", kGlobal, [] { return cudaStreamSynchronize(nullptr); }, kImplicit,
       true},
      {"record legacy", kGlobal, [&] { return cudaEventRecord(event_, nullptr); }, kImplicit, true},
      {"synchronize another", kGlobal, [&] { return cudaStreamSynchronize(other_); }, kUnsupported,
       true},
      {"synchronize an event", kGlobal, [&] { return cudaEventSynchronize(recorded); },
       kUnsupported, true},
      {"wait for outside", kGlobal, [&] { return cudaStreamWaitEvent(stream_, recorded, 0); },
       cudaErrorStreamCaptureIsolation, true},
      {"bad kernel", kGlobal, [&] { return launch_empty(stream_, 2000); }, cudaErrorInvalidValue,
       true},
      {"bad copy", kGlobal, [&] { return cudaMemcpyAsync(d, h, 65, kTo, stream_); },
       cudaErrorInvalidValue, false},
      {"query another", kGlobal, [&] { return cudaStreamQuery(other_); }, kUnsupported, true},
      {"query an event", kGlobal, [&] { return cudaEventQuery(recorded); }, kUnsupported, true},
      {"legacy wait", kGlobal, [&] { return cudaStreamWaitEvent(nullptr, event_, 0); }, kImplicit,
       true},
      {"legacy malloc", kGlobal, [&] { return cudaMallocAsync(&memory, 16, nullptr); }, kImplicit,
       true},
      {"register", kGlobal, [&] { return cudaHostRegister(host_.data(), 16, 0); }, kUnsupported,
       true},
      {"stream create", kGlobal, [&] { return cudaStreamCreate(&made_stream); }, cudaSuccess,
       false},
      {"stream destroy", kGlobal, [&] { return cudaStreamDestroy(made_stream); }, cudaSuccess,
       false},
      {"event create", kGlobal, [&] { return cudaEventCreate(&made_event); }, cudaSuccess, false},
      {"event destroy", kGlobal, [&] { return cudaEventDestroy(made_event); }, cudaSuccess, false},
      {"copy in it", kGlobal, [&] { return cudaMemcpyAsync(d, h, 16, kTo, stream_); }, cudaSuccess,
       false},
      {"malloc, relaxed", kRelaxed, malloc, cudaSuccess, false},
  };
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    begin(call.mode);
    EXPECT_CUDA(call.call(), call.expected);
    call.invalidates ? end_invalidated() : end();
    cudaGetLastError();
  }
  EXPECT_CUDA(cudaFree(memory), cudaSuccess);
}

TEST_F(CaptureTest, NonBlockingStreamsDoNotHoldUpTheLegacyStream) {
  const TestStream free_running(cudaStreamNonBlocking);
  ASSERT_CUDA(cudaStreamBeginCapture(free_running, kGlobal));
  EXPECT_CUDA(cudaMemcpy(device_.data(), host_.data(), 16, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(status_of(free_running), cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(free_running, &graph), cudaSuccess);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(CaptureTest, AskingAboutTheLegacyStreamDoesNoHarm) {
  begin();
  cudaStreamCaptureStatus status{};
  EXPECT_CUDA(cudaStreamIsCapturing(nullptr, &status), cudaErrorStreamCaptureImplicit);
  end();
}

TEST_F(CaptureTest, CapturedEventsCannotBeWaitedFor) {
  float ms = 0;
  begin();
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  EXPECT_CUDA(cudaEventElapsedTime(&ms, event_, event_), cudaErrorCapturedEvent);
  end();
  EXPECT_CUDA(cudaEventQuery(event_), cudaErrorInvalidValue);  // of a capture that has ended
  EXPECT_CUDA(cudaStreamWaitEvent(stream_, event_, 0), cudaErrorInvalidValue);
  for (const auto& wait : {cudaEventQuery, cudaEventSynchronize}) {
    begin();
    ASSERT_CUDA(cudaEventRecord(event_, stream_));
    EXPECT_CUDA(wait(event_), cudaErrorCapturedEvent);
    end_invalidated();
  }
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  EXPECT_CUDA(cudaEventSynchronize(event_), cudaSuccess);
}

TEST_F(CaptureTest, AnotherStreamJoinsThroughEvents) {
  const TestEvent joined;
  begin();
  ASSERT_CUDA(launch_empty(stream_));
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, event_, 0));
  EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusActive);
  ASSERT_CUDA(launch_empty(other_));
  ASSERT_CUDA(launch_empty(stream_));
  ASSERT_CUDA(cudaEventRecord(joined, other_));
  ASSERT_CUDA(cudaStreamWaitEvent(stream_, joined, 0));
  ASSERT_CUDA(launch_empty(stream_));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusNone);
  size_t nodes = 0;
  size_t edges = 0;
  size_t roots = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), cudaSuccess);
  EXPECT_CUDA(cudaGraphGetRootNodes(graph, nullptr, &roots), cudaSuccess);
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(edges, 4u);  // a diamond
  EXPECT_EQ(roots, 1u);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(CaptureTest, AStreamThatJoinedWithoutWorkNeedNotBeJoinedAgain) {
  begin();
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, event_, 0));
  end();
  EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusNone);
}

TEST_F(CaptureTest, StreamsMayBeDestroyedDuringIt) {
  cudaStream_t short_lived = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&short_lived));
  begin();
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(short_lived, event_, 0));
  ASSERT_CUDA(cudaStreamDestroy(short_lived));
  end();
}

TEST_F(CaptureTest, WorkMustBeJoined) {
  begin();
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, event_, 0));
  ASSERT_CUDA(launch_empty(other_));
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status_of(stream_), cudaStreamCaptureStatusNone);
  EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusNone);
}

TEST_F(CaptureTest, OnlyTheFirstStreamEndsTheCapture) {
  begin();
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, event_, 0));
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(other_, &graph), cudaErrorStreamCaptureUnmatched);
  end_invalidated();
}

TEST_F(CaptureTest, CapturesDoNotMerge) {
  begin();
  ASSERT_CUDA(cudaStreamBeginCapture(other_, kGlobal));
  ASSERT_CUDA(cudaEventRecord(event_, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other_, event_, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusInvalidated);
  end_invalidated();
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(other_, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, ExternalEventsAreNodes) {
  EXPECT_CUDA(cudaEventRecordWithFlags(event_, stream_, cudaEventRecordExternal),
              cudaErrorIllegalState);
  EXPECT_CUDA(cudaStreamWaitEvent(stream_, event_, cudaEventWaitExternal), cudaErrorIllegalState);
  begin();
  EXPECT_CUDA(cudaStreamWaitEvent(stream_, event_, cudaEventWaitExternal), cudaSuccess);
  EXPECT_CUDA(cudaEventRecordWithFlags(event_, stream_, cudaEventRecordExternal), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphNode_t nodes[2];
  size_t count = 2;
  ASSERT_CUDA(cudaGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(count, 2u);
  cudaGraphNodeType types[2];
  for (int i = 0; i < 2; ++i) EXPECT_CUDA(cudaGraphNodeGetType(nodes[i], &types[i]), cudaSuccess);
  EXPECT_EQ(types[0], cudaGraphNodeTypeWaitEvent);
  EXPECT_EQ(types[1], cudaGraphNodeTypeEventRecord);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(CaptureTest, InfoAndDependencies) {
  begin();
  ASSERT_CUDA(launch_empty(stream_));
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* tips = nullptr;
  size_t count = 0;
  ASSERT_CUDA(cudaStreamGetCaptureInfo(stream_, &status, &id, &graph, &tips, nullptr, &count));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  // A node of the program's own takes the place of what the stream did last.
  cudaGraphNode_t own = nullptr;
  ASSERT_CUDA(cudaGraphAddEmptyNode(&own, graph, tips, count));
  ASSERT_CUDA(cudaStreamUpdateCaptureDependencies(stream_, &own, nullptr, 1,
                                                  cudaStreamSetCaptureDependencies));
  ASSERT_CUDA(launch_empty(stream_));
  ASSERT_CUDA(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &tips, nullptr, &count));
  ASSERT_EQ(count, 1u);
  cudaGraphNode_t before = nullptr;
  size_t one = 1;
  ASSERT_CUDA(cudaGraphNodeGetDependencies(tips[0], &before, nullptr, &one));
  EXPECT_EQ(before, own);
  end();
}

TEST_F(CaptureTest, WhatIsCapturedRunsWhenLaunched) {
  begin();
  ASSERT_CUDA(cudaMemsetAsync(device_.data(), 5, 64, stream_));
  ASSERT_CUDA(cudaMemcpyAsync(host_.data(), device_.data(), 64, cudaMemcpyDeviceToHost, stream_));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  EXPECT_EQ(host_, std::vector<char>(64, 0));
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream_));
  ASSERT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(host_, std::vector<char>(64, 5));
  EXPECT_CUDA(cudaGraphExecDestroy(exec), cudaSuccess);
}

void count_up(void* counter) { ++*static_cast<int*>(counter); }

TEST_F(CaptureTest, HostFunctionsAndMemoryOfStreams) {
  int calls = 0;
  void* memory = nullptr;
  begin();
  ASSERT_CUDA(cudaLaunchHostFunc(stream_, count_up, &calls));
  ASSERT_CUDA(cudaMallocAsync(&memory, 1000, stream_));
  ASSERT_CUDA(cudaMemsetAsync(memory, 1, 1000, stream_));
  ASSERT_CUDA(cudaFreeAsync(memory, stream_));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphNode_t nodes[4];
  size_t count = 4;
  ASSERT_CUDA(cudaGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(count, 4u);
  const cudaGraphNodeType expected[] = {cudaGraphNodeTypeHost, cudaGraphNodeTypeMemAlloc,
                                        cudaGraphNodeTypeMemset, cudaGraphNodeTypeMemFree};
  for (int i = 0; i < 4; ++i) {
    cudaGraphNodeType type{};
    EXPECT_CUDA(cudaGraphNodeGetType(nodes[i], &type), cudaSuccess);
    EXPECT_EQ(type, expected[i]) << i;
  }
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_EQ(calls, 0);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream_));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream_));
  ASSERT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(calls, 2);
  EXPECT_CUDA(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(CaptureTest, ThreadsChooseWhatCapturesForbid) {
  begin();
  void* memory = nullptr;
  std::thread([&] {
    cudaStreamCaptureMode mode = kRelaxed;
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(mode, kGlobal);
    EXPECT_CUDA(cudaMalloc(&memory, 16), cudaSuccess);
  }).join();
  end();
  begin();
  std::thread([&] {
    EXPECT_CUDA(cudaFree(memory), cudaErrorStreamCaptureUnsupported);
    cudaGetLastError();
  }).join();
  end_invalidated();
  begin(kThreadLocal);
  std::thread([&] { EXPECT_CUDA(cudaFree(memory), cudaSuccess); }).join();
  end();
}

TEST_F(CaptureTest, AnotherThreadMayOnlyEndARelaxedCapture) {
  cudaGraph_t graph = nullptr;
  begin();
  std::thread([&] {
    EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureWrongThread);
    cudaGetLastError();
  }).join();
  EXPECT_EQ(status_of(stream_), cudaStreamCaptureStatusNone);
  begin(kRelaxed);
  std::thread([&] { EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph), cudaSuccess); }).join();
  EXPECT_CUDA(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace mpfa::sim
