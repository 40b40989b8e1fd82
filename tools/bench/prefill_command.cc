#include "bench/prefill_command.h"

#include <fmt/format.h>

#include <vector>

#include "bench/backend_options.h"
#include "bench/gpu_bench.h"
#include "bench/gpu_prefill.h"
#include "bench/prefill_report.h"
#include "common/command_output.h"
#include "common/errors.h"
#include "common/machine.h"
#include "common/progress.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kMaxTokens = INT32_MAX;
constexpr double kMaxSeconds = 3600.0;

constexpr OptionNames kOptionNames = {
    // Make no sense on the CPU.
    {"--suite", "--seqlen-q", "--full", "--precision", "--flush-mib", "--idle", "--sustained"},
    // A suite has its own.
    {"--seqlen-q", "--full", "--page-size", "--residual-rank", "--delta-s", "--no-first-key"}};

std::vector<PrefillCase> cases_of(const std::string& shapes, const WorkloadOptions& workload,
                                  const PrefillCommandOptions& options) {
  const PrefillPrecision precision = precision_from_name(options.precision);
  if (shapes.empty()) {
    return prefill_suite(options.suite.empty() ? prefill_suites().front() : options.suite,
                         workload.dtype, precision);
  }
  std::vector<PrefillCase> cases;
  for (const BenchShape& shape : parse_bench_shapes(shapes)) {
    PrefillCase& prefill = cases.emplace_back(equal_lengths(shape, options.seqlen_q));
    prefill.options = workload;
    prefill.is_causal = !options.is_full;
    prefill.precision = precision;
  }
  return cases;
}

}  // namespace

void add_prefill_gpu_options(CLI::App& command, PrefillCommandOptions& options) {
  add_backend_option(command, options.backend);
  add_suite_option(command, prefill_suites(), options.suite);
  command
      .add_option("--seqlen-q", options.seqlen_q,
                  "cuda: query rows of each sequence, its last tokens (default: all)")
      ->check(whole_number(1, kMaxTokens))
      ->type_name("N");
  command.add_flag("--full", options.is_full, "cuda: without a causal mask");
  command
      .add_option(
          "--precision", options.precision,
          fmt::format("cuda: {}; a hint (mpfa/attention.h)", fmt::join(precision_names(), ", ")))
      ->check(CLI::IsMember(precision_names()))
      ->type_name("NAME")
      ->capture_default_str();
  add_flush_option(command, options.flush_mib);
  command.add_option("--idle", options.idle_s, "cuda: seconds of rest before each figure")
      ->check(CLI::Range(0.0, kMaxSeconds))
      ->type_name("SECONDS")
      ->capture_default_str();
  command
      .add_option("--sustained", options.sustained_s,
                  "cuda: seconds of calls without a pause, timed too; 0: not")
      ->check(CLI::Range(0.0, kMaxSeconds))
      ->type_name("SECONDS")
      ->capture_default_str();
}

void check_prefill_gpu_options(const CLI::App& command, const PrefillCommandOptions& options,
                               const WorkloadOptions& workload) {
  check_backend_options(command, options.backend, workload.dtype, kOptionNames);
  if (options.backend == "cuda" && command.count("--kv-split-size") > 0) {
    throw UsageError("--kv-split-size: prefill on a GPU does not split keys");
  }
}

void run_gpu_prefill(const CommonOptions& common, const std::string& shapes, int64_t repeat,
                     const WorkloadOptions& workload, const PrefillCommandOptions& options) {
  const CommandOutput output("bench prefill", common.json);
  const std::vector<PrefillCase> cases = cases_of(shapes, workload, options);
  const std::string gpu = gpu_name();
  const int64_t flush_bytes = options.flush_mib << 20;

  Progress progress("prefill", static_cast<int64_t>(cases.size()));
  std::vector<GpuPrefillResult> results;
  Json list = Json::array();
  for (const PrefillCase& prefill : cases) {
    progress.set_label(fmt::format("prefill {}, {}", label(prefill), describe(prefill)));
    results.push_back(
        {prefill, with_context("shape " + label(prefill), [&] {
           return time_prefill(prefill, {repeat, flush_bytes, options.idle_s, options.sustained_s});
         })});
    list.push_back(gpu_prefill_json(results.back()));
    progress.step();
  }
  progress.finish();
  output.print(
      "prefill on {}, random pages, {}, {} repetitions, {} MiB written before each, {} s of rest "
      "before each figure\n\n{}",
      gpu, workload.dtype, repeat, options.flush_mib, options.idle_s, gpu_prefill_table(results));
  output.write_json({{"machine", machine_json()},
                     {"backend", "cuda"},
                     {"gpu", gpu},
                     {"repeat", repeat},
                     {"dtype", workload.dtype},
                     {"flush_bytes", flush_bytes},
                     {"idle_s", options.idle_s},
                     {"sustained_s", options.sustained_s},
                     {"results", list}});
}

}  // namespace mpfa::tools
