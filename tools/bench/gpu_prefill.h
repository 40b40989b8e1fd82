// Times prefill on a GPU. Builds without CUDA have it too, to say so (no_gpu.cc).
#pragma once

#include <cstdint>

#include "bench/prefill_case.h"
#include "bench/samples.h"

namespace mpfa::tools {

struct GpuPrefillOptions {
  int64_t repeat = 9;
  int64_t flush_bytes = int64_t{256} << 20;  // written before each repetition
  double idle_s = 0.5;                       // rest before each figure
  double sustained_s = 0.0;                  // calls without a pause that are timed too; 0: none
};

// What a CUDA graph takes, and the clock of the multiprocessors meanwhile: compute_times.h.
struct GpuPrefillTimes {
  Samples call;  // append_kv of the new tokens, and attention
  double clock_mhz = 0.0;
  double sustained_s = 0.0;  // of one of many such calls in a row
  double sustained_clock_mhz = 0.0;
  Samples attention;  // attention alone
  double attention_clock_mhz = 0.0;
};

// Random keys, values, queries and pages. Throws IoError where the build has no CUDA, CudaError
// where a call fails or the GPU's memory is too small, Error where a result is not finite.
GpuPrefillTimes time_prefill(const PrefillCase& prefill, const GpuPrefillOptions& options);

}  // namespace mpfa::tools
