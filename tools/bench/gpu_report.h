// What decode's times on a GPU look like to people and to programs.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "common/command_output.h"

namespace mpfa::tools {

struct GpuDecodeResult {
  DecodeCase decode;
  GpuDecodeTimes times;
};

// A group of rows for each run of cases that describe() alike.
std::string gpu_decode_table(const GpuReference& reference,
                             const std::vector<GpuDecodeResult>& results);
Json gpu_decode_json(const GpuReference& reference, const GpuDecodeResult& result);

}  // namespace mpfa::tools
