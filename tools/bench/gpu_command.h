// mpfa bench decode --backend cuda: its options, and what it does.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "bench/workload.h"
#include "common/common_options.h"

namespace mpfa::tools {

struct GpuCommandOptions {
  std::string backend = "cpu";
  std::string suite;  // empty: the first, unless there are shapes
  std::string lengths = "equal";
  int64_t seqlen_q = 1;
  int64_t num_caches = 16;
  int64_t flush_mib = 256;
  int64_t copy_mib = 1024;
};

// Adds --backend and, for cuda, --suite, --lengths, --seqlen-q, --caches, --flush-mib, --copy-mib.
void add_gpu_options(CLI::App& command, GpuCommandOptions& options);

// Throws UsageError for an option that the chosen back end does not have, or that a suite settles.
void check_gpu_options(const CLI::App& command, const GpuCommandOptions& options,
                       const WorkloadOptions& workload);

// `shapes` as parse_bench_shapes reads them; empty: those of the suite.
void run_gpu_decode(const CommonOptions& common, const std::string& shapes, int64_t repeat,
                    const WorkloadOptions& workload, const GpuCommandOptions& options);

}  // namespace mpfa::tools
