#include "bench/sm_clock.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "bench/clock_kernel.h"
#include "bench/samples.h"

namespace mpfa::tools {

using internal::check_cuda;

namespace {

void read_clock(void* readings, int sm_count, cudaStream_t stream) {
  check_cuda(launch_clock_kernel(static_cast<ClockReading*>(readings), sm_count, stream),
             "clock_kernel");
}

int current_sm_count() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return internal::device_info(device).sm_count;
}

}  // namespace

SmClock::SmClock()
    : sm_count_(current_sm_count()),
      readings_(allocate_gpu_memory(2 * static_cast<size_t>(sm_count_) * sizeof(ClockReading))) {}

void SmClock::start(cudaStream_t stream) { read_clock(readings_.get(), sm_count_, stream); }

void SmClock::stop(cudaStream_t stream) {
  read_clock(static_cast<ClockReading*>(readings_.get()) + sm_count_, sm_count_, stream);
}

double SmClock::mhz() const {
  const auto count = static_cast<size_t>(sm_count_);
  std::vector<ClockReading> readings(2 * count);
  // The default stream's copy does not wait for streams that were made not to block it.
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_cuda(cudaMemcpy(readings.data(), readings_.get(), readings.size() * sizeof(ClockReading),
                        cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  std::map<uint64_t, ClockReading> before;
  for (size_t i = 0; i < count; ++i) before.emplace(readings[i].sm, readings[i]);
  std::vector<double> mhz;
  for (size_t i = count; i < 2 * count; ++i) {
    const ClockReading& last = readings[i];
    const auto same_sm = before.find(last.sm);
    if (same_sm == before.end()) continue;
    const ClockReading& first = same_sm->second;
    if (last.nanoseconds <= first.nanoseconds || last.cycles <= first.cycles) continue;
    mhz.push_back(1e3 * static_cast<double>(last.cycles - first.cycles) /
                  static_cast<double>(last.nanoseconds - first.nanoseconds));
  }
  return mhz.empty() ? 0.0 : median(mhz);
}

}  // namespace mpfa::tools
