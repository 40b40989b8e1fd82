// A GPU's memory, streams and graphs that end with their owner, and their times.
#pragma once

#include <cuda_runtime_api.h>
#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/samples.h"
#include "cuda/device.h"
#include "mpfa/tensor.h"

namespace mpfa::tools {

struct FreeGpuMemory {
  void operator()(void* memory) const;
};
using GpuMemory = std::unique_ptr<void, FreeGpuMemory>;

// Throws CudaError.
GpuMemory allocate_gpu_memory(size_t bytes);

// A compact row-major tensor in memory of the current device.
class GpuTensor {
 public:
  GpuTensor() = default;
  // Not initialised.
  GpuTensor(DLDataType dtype, std::span<const int64_t> shape);
  // With the elements of a compact tensor of the host.
  explicit GpuTensor(const DLTensor& host);

  explicit operator bool() const { return memory_ != nullptr; }
  const TensorView& view() const { return view_; }
  // Null for a default-constructed tensor.
  const DLTensor* get() const { return memory_ ? &view_ : nullptr; }
  size_t bytes() const;
  void* data() const { return memory_.get(); }

 private:
  GpuMemory memory_;
  TensorView view_;
};

class GpuStream {
 public:
  GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  ~GpuStream();

  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// What was enqueued on a stream between begin() and end().
class GpuGraph {
 public:
  // Calls enqueue(), which puts its work on `stream`.
  template <typename Fn>
  GpuGraph(cudaStream_t stream, Fn&& enqueue) {
    begin(stream);
    enqueue();
    end(stream);
  }
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;
  ~GpuGraph();

  void launch(cudaStream_t stream) const;

 private:
  static void begin(cudaStream_t stream);
  void end(cudaStream_t stream);

  cudaGraphExec_t exec_ = nullptr;
};

class SmClock;

// Times of work on one stream, each after `flush_bytes` were written.
class GpuTimer {
 public:
  // `clock`, which may be null, is read around each repetition, outside its time, and outlives
  // this.
  GpuTimer(cudaStream_t stream, int64_t flush_bytes, SmClock* clock = nullptr);
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;
  ~GpuTimer();

  // enqueue() puts the work on the stream; it is called twice more, first, to warm up.
  template <typename Fn>
  Samples time(int64_t repeat, Fn&& enqueue) {
    Samples samples;
    clocks_mhz_.clear();
    for (int64_t i = -kWarmUps; i < repeat; ++i) {
      start();
      enqueue();
      const double seconds = stop();
      if (i < 0) continue;
      samples.seconds.push_back(seconds);
      if (clock_ != nullptr) clocks_mhz_.push_back(read_clock());
    }
    return samples;
  }
  Samples time(int64_t repeat, const GpuGraph& graph) {
    return time(repeat, [&] { graph.launch(stream_); });
  }

  // Of the multiprocessors, median over the repetitions of the last time(); 0 without a clock.
  double clock_mhz() const { return clocks_mhz_.empty() ? 0.0 : median(clocks_mhz_); }
  cudaStream_t stream() const { return stream_; }

 private:
  static constexpr int64_t kWarmUps = 2;
  void start();
  double stop();
  double read_clock() const;

  cudaStream_t stream_;
  size_t flush_bytes_;
  GpuMemory flush_;
  SmClock* clock_;
  std::vector<double> clocks_mhz_;
  cudaEvent_t started_ = nullptr;
  cudaEvent_t stopped_ = nullptr;
};

}  // namespace mpfa::tools
