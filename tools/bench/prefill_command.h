// mpfa bench prefill --backend cuda: its options, and what it does.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "bench/workload.h"
#include "common/common_options.h"

namespace mpfa::tools {

struct PrefillCommandOptions {
  std::string backend = "cpu";
  std::string suite;     // empty: the first, unless there are shapes
  int64_t seqlen_q = 0;  // 0: as many as tokens
  bool is_full = false;  // without a causal mask
  std::string precision = "auto";
  int64_t flush_mib = 256;
  double idle_s = 0.5;
  double sustained_s = 0.0;
};

// Adds --backend and, for cuda, --suite, --seqlen-q, --full, --precision, --flush-mib, --idle and
// --sustained.
void add_prefill_gpu_options(CLI::App& command, PrefillCommandOptions& options);

// Throws UsageError for an option that the chosen back end does not have, or that a suite settles.
void check_prefill_gpu_options(const CLI::App& command, const PrefillCommandOptions& options,
                               const WorkloadOptions& workload);

// `shapes` as parse_bench_shapes reads them; empty: those of the suite.
void run_gpu_prefill(const CommonOptions& common, const std::string& shapes, int64_t repeat,
                     const WorkloadOptions& workload, const PrefillCommandOptions& options);

}  // namespace mpfa::tools
