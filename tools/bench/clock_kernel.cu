#include "bench/clock_kernel.h"

namespace mpfa::tools {
namespace {

// Blocks so large are spread over all multiprocessors before any gets a second one.
constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads) clock_kernel(ClockReading* readings) {
  if (threadIdx.x != 0) return;
  ClockReading reading;
  uint32_t sm = 0;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(reading.cycles));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(reading.nanoseconds));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  reading.sm = sm;
  readings[blockIdx.x] = reading;
}

}  // namespace

cudaError_t launch_clock_kernel(ClockReading* readings, int count, cudaStream_t stream) {
  clock_kernel<<<count, kThreads, 0, stream>>>(readings);
  return cudaGetLastError();
}

}  // namespace mpfa::tools
