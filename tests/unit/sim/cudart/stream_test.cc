#include <cuda_runtime_api.h>

#include <thread>
#include <vector>

#include "cudart_test.h"
#include "kernels.h"

extern "C" cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* id);

namespace mpfa::sim {
namespace {

using StreamTest = CudartTest;

TEST_F(StreamTest, Properties) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, 7), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
  int least = 1;
  int greatest = 1;
  int priority = 0;
  ASSERT_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
  ASSERT_CUDA(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  unsigned flags = 0;
  ASSERT_CUDA(cudaStreamGetFlags(stream, &flags));
  EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  int device = -1;
  ASSERT_CUDA(cudaStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 0);
  EXPECT_CUDA(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_CUDA(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_CUDA(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_CUDA(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaStreamDestroy(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
}

unsigned long long id_of(cudaStream_t stream) {
  unsigned long long id = 0;
  EXPECT_CUDA(cudaStreamGetId(stream, &id), cudaSuccess);
  return id;
}

TEST_F(StreamTest, DefaultStreams) {
  EXPECT_EQ(id_of(nullptr), id_of(cudaStreamLegacy));
  EXPECT_NE(id_of(nullptr), id_of(cudaStreamPerThread));
  unsigned long long id = 0;
  EXPECT_CUDA(cudaStreamGetId_ptsz(nullptr, &id), cudaSuccess);
  EXPECT_EQ(id, id_of(cudaStreamPerThread));
  unsigned long long of_thread = 0;
  std::thread([&] { of_thread = id_of(cudaStreamPerThread); }).join();
  EXPECT_NE(of_thread, id_of(cudaStreamPerThread));
}

TEST_F(StreamTest, Events) {
  cudaEvent_t made = nullptr;
  EXPECT_CUDA(cudaEventCreateWithFlags(&made, cudaEventInterprocess), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaEventCreateWithFlags(&made, 1234), cudaErrorInvalidValue);
  const TestEvent start;
  const TestEvent end;
  const TestEvent untimed(cudaEventDisableTiming);
  float ms = -1;
  EXPECT_CUDA(cudaEventElapsedTime(&ms, start, start), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaEventQuery(start), cudaSuccess);  // nothing to wait for
  ASSERT_CUDA(cudaEventRecord(start, nullptr));
  ASSERT_CUDA(cudaEventSynchronize(start));
  EXPECT_CUDA(cudaEventElapsedTime(&ms, start, start), cudaSuccess);
  EXPECT_EQ(ms, 0);
  launch_add(64, 256, 0, nullptr, nullptr, nullptr, 0);
  ASSERT_CUDA(cudaEventRecord(end, nullptr));
  ASSERT_CUDA(cudaEventSynchronize(end));
  EXPECT_CUDA(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
  EXPECT_GT(ms, 0);
  ASSERT_CUDA(cudaEventRecord(untimed, nullptr));
  EXPECT_CUDA(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaStreamWaitEvent(nullptr, nullptr, 0), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaStreamWaitEvent(nullptr, end, 0), cudaSuccess);
}

void set_to_7(void* value) { *static_cast<int*>(value) = 7; }

void CUDART_CB set_status(cudaStream_t /*stream*/, cudaError_t status, void* out) {
  *static_cast<cudaError_t*>(out) = status;
}

TEST_F(StreamTest, HostFunctionsAndCallbacks) {
  const TestStream stream;
  int value = 0;
  cudaError_t status = cudaErrorUnknown;
  ASSERT_CUDA(cudaLaunchHostFunc(stream, set_to_7, &value));
  ASSERT_CUDA(cudaStreamAddCallback(stream, set_status, &status, 0));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(value, 7);
  EXPECT_CUDA(status, cudaSuccess);
}

void CUDART_CB call_runtime(void* out) {
  auto& errors = *static_cast<std::vector<cudaError_t>*>(out);
  void* memory = nullptr;
  int value = 0;
  errors.push_back(cudaMalloc(&memory, 4));
  errors.push_back(cudaGetLastError());
  errors.push_back(cudaPeekAtLastError());
  errors.push_back(cudaGetDeviceCount(&value));
  errors.push_back(cudaGetDevice(&value));
  errors.push_back(cudaStreamQuery(nullptr));
  errors.push_back(cudaDeviceSynchronize());
}

TEST_F(StreamTest, HostFunctionsMustNotCallTheRuntime) {
  const TestStream stream;
  std::vector<cudaError_t> errors;
  ASSERT_CUDA(cudaLaunchHostFunc(stream, call_runtime, &errors));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaGetLastError(), cudaSuccess);  // errors there are another thread's
  const cudaError_t no = cudaErrorNotPermitted;
  EXPECT_EQ(errors, (std::vector<cudaError_t>{no, no, cudaSuccess, cudaSuccess, no, no, no}));
}

}  // namespace
}  // namespace mpfa::sim
