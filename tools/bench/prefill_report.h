// What prefill's times on a GPU look like to people and to programs.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu_prefill.h"
#include "common/command_output.h"

namespace mpfa::tools {

struct GpuPrefillResult {
  PrefillCase prefill;
  GpuPrefillTimes times;
};

// A group of rows for each run of cases that describe() alike.
std::string gpu_prefill_table(const std::vector<GpuPrefillResult>& results);
Json gpu_prefill_json(const GpuPrefillResult& result);

}  // namespace mpfa::tools
