#include "bench/compute_times.h"

#include <chrono>
#include <cmath>
#include <thread>

namespace mpfa::tools {

ComputeTimes time_compute(GpuTimer& timer, const GpuGraph& graph,
                          const ComputeTimesOptions& options) {
  ComputeTimes times;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.idle_s));
  times.call = timer.time(options.repeat, graph);
  times.clock_mhz = timer.clock_mhz();
  if (options.sustained_s <= 0.0) return times;

  const auto calls = static_cast<int64_t>(std::ceil(options.sustained_s / times.call.median()));
  const Samples in_a_row = timer.time(1, [&] {
    for (int64_t i = 0; i < calls; ++i) graph.launch(timer.stream());
  });
  times.sustained_s = in_a_row.median() / static_cast<double>(calls);
  times.sustained_clock_mhz = timer.clock_mhz();
  return times;
}

}  // namespace mpfa::tools
