// Times of work that keeps the tensor cores busy, whose clock power and heat lower within some tens
// of milliseconds. How long the GPU has rested is part of such a time.
#pragma once

#include <cstdint>

#include "bench/gpu.h"
#include "bench/samples.h"

namespace mpfa::tools {

struct ComputeTimesOptions {
  int64_t repeat = 9;
  double idle_s = 0.5;       // rest before the first call
  double sustained_s = 0.0;  // work without a pause that is timed, after twice as much; 0: none
};

struct ComputeTimes {
  Samples call;            // single calls after the rest, each after the timer's flush
  double clock_mhz = 0.0;  // median of these calls
  // Of one of many calls in a row, without flushes.
  double sustained_s = 0.0;
  double sustained_clock_mhz = 0.0;
};

// `timer` has a clock. `graph` is one call.
ComputeTimes time_compute(GpuTimer& timer, const GpuGraph& graph,
                          const ComputeTimesOptions& options);

}  // namespace mpfa::tools
