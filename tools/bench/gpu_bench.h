// Times decode on a GPU. Builds without CUDA have it too, to say so (no_gpu.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/decode_case.h"
#include "bench/samples.h"

namespace mpfa::tools {

struct GpuBenchOptions {
  int64_t repeat = 20;
  int64_t num_caches = 16;                   // of the back-to-back figure, at most
  int64_t flush_bytes = int64_t{256} << 20;  // written before each repetition
  int64_t copy_bytes = int64_t{1024} << 20;  // copied to measure the copy speed
};

// What the GPU does in the same harness, to hold a kernel's times against.
struct GpuReference {
  std::string name;
  double empty_kernel_s = 0.0;
  double copy_bytes_per_s = 0.0;  // device to device, bytes read plus bytes written
};

struct GpuDecodeTimes {
  Samples attention;        // one call that is scheduled already
  double schedule_s = 0.0;  // median
  // `num_caches` calls in a row, each on a cache of its own, as the layers of a model: the median
  // of the whole, divided by their number.
  double back_to_back_s = 0.0;
  int64_t num_caches = 1;
};

// The current device's. Throws IoError where there is no GPU or the build has no CUDA.
std::string gpu_name();

// Every time is that of a CUDA graph's replay between two events, after `flush_bytes` were written,
// so that nothing of the cache is in the GPU's second-level cache.
class GpuBench {
 public:
  // Measures the reference on the current device. Throws IoError where there is no GPU or the build
  // has no CUDA, CudaError where a call fails.
  explicit GpuBench(const GpuBenchOptions& options);
  GpuBench(const GpuBench&) = delete;
  GpuBench& operator=(const GpuBench&) = delete;
  ~GpuBench();

  const GpuReference& reference() const;

  // Random keys, values, queries and pages; plan(), append_kv(), schedule(), attention(). Throws
  // IoError where not one cache fits into the GPU's memory, Error where a result is not finite.
  GpuDecodeTimes decode(const DecodeCase& decode);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mpfa::tools
