// The clock of a GPU's multiprocessors while it worked: power and heat lower it.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu.h"

namespace mpfa::tools {

// Reads the cycle counter and the time of every multiprocessor before and after some work, with two
// kernels of about 3 us. Times are in steps of up to 1 us, so work shorter than 100 us is measured
// to a percent at best.
class SmClock {
 public:
  // For the current device. Throws CudaError.
  SmClock();

  // Enqueue their kernels; work between them on the stream is what is measured.
  void start(cudaStream_t stream);
  void stop(cudaStream_t stream);

  // Mean over the time between the last start() and stop(), median over the multiprocessors; 0
  // where that time was too short. Waits for stop().
  double mhz() const;

 private:
  int sm_count_ = 0;
  GpuMemory readings_;  // [2, sm_count]: before, after
};

}  // namespace mpfa::tools
