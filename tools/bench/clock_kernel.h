// What time it is on a GPU's multiprocessors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mpfa::tools {

struct ClockReading {
  uint64_t cycles = 0;
  uint64_t nanoseconds = 0;  // in steps of up to 1 us
  uint64_t sm = 0;           // which multiprocessor
};

// readings: [count]. With a count of the GPU's multiprocessors there is one of each, or nearly so.
cudaError_t launch_clock_kernel(ClockReading* readings, int count, cudaStream_t stream);

}  // namespace mpfa::tools
