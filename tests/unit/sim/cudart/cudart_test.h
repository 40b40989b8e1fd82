// What the tests of the simulated runtime share. Each of them passes on an H200 with NVIDIA's
// runtime as well, from which their expectations come.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace mpfa::sim {

// Compares errors by their names.
#define EXPECT_CUDA(call, expected) \
  EXPECT_STREQ(cudaGetErrorName(call), cudaGetErrorName(expected)) << #call
#define ASSERT_CUDA(call) ASSERT_STREQ(cudaGetErrorName(call), "cudaSuccess") << #call

// Ends with no error left over from a call that was to fail.
class CudartTest : public testing::Test {
 protected:
  ~CudartTest() override { cudaGetLastError(); }
};

// Device memory of `count` elements.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_CUDA(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> copy(count_);
    EXPECT_CUDA(cudaMemcpy(copy.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return copy;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// A stream that lives as long as this.
class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamDefault) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDefault) {
    EXPECT_CUDA(cudaEventCreateWithFlags(&event_, flags), cudaSuccess);
  }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;

  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mpfa::sim
