#include "bench/gpu_command.h"

#include <fmt/format.h>

#include <vector>

#include "bench/backend_options.h"
#include "bench/gpu_report.h"
#include "common/command_output.h"
#include "common/errors.h"
#include "common/machine.h"
#include "common/progress.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kMaxCaches = 1024;
constexpr int64_t kMaxSeqlenQ = 16;  // more rows are prefill, by another kernel

constexpr OptionNames kOptionNames = {
    // Make no sense on the CPU.
    {"--suite", "--lengths", "--seqlen-q", "--caches", "--flush-mib", "--copy-mib"},
    // A suite has its own.
    {"--lengths", "--seqlen-q", "--page-size", "--residual-rank", "--delta-s", "--no-first-key",
     "--kv-split-size"}};

std::vector<DecodeCase> cases_of(const std::string& shapes, const WorkloadOptions& workload,
                                 const GpuCommandOptions& options) {
  if (shapes.empty()) {
    return decode_suite(options.suite.empty() ? decode_suites().front() : options.suite,
                        workload.dtype);
  }
  std::vector<DecodeCase> cases;
  for (const BenchShape& shape : parse_bench_shapes(shapes)) {
    cases.push_back({shape, workload, lengths_from_name(options.lengths), options.seqlen_q});
  }
  return cases;
}

}  // namespace

void add_gpu_options(CLI::App& command, GpuCommandOptions& options) {
  add_backend_option(command, options.backend);
  add_suite_option(command, decode_suites(), options.suite);
  command
      .add_option("--lengths", options.lengths,
                  "cuda: equal; uniform, drawn from 1 to LENGTH; uneven, the first sequence LENGTH "
                  "and the others 1/128 of it")
      ->check(CLI::IsMember({"equal", "uniform", "uneven"}))
      ->type_name("RULE")
      ->capture_default_str();
  command.add_option("--seqlen-q", options.seqlen_q, "cuda: query rows of each sequence")
      ->check(whole_number(1, kMaxSeqlenQ))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--caches", options.num_caches,
                  "cuda: caches of the back-to-back figure, or as many as fit into memory")
      ->check(whole_number(1, kMaxCaches))
      ->type_name("N")
      ->capture_default_str();
  add_flush_option(command, options.flush_mib);
  command.add_option("--copy-mib", options.copy_mib, "cuda: MiB copied to measure the copy speed")
      ->check(whole_number(1, kMaxMib))
      ->type_name("N")
      ->capture_default_str();
}

void check_gpu_options(const CLI::App& command, const GpuCommandOptions& options,
                       const WorkloadOptions& workload) {
  check_backend_options(command, options.backend, workload.dtype, kOptionNames);
}

void run_gpu_decode(const CommonOptions& common, const std::string& shapes, int64_t repeat,
                    const WorkloadOptions& workload, const GpuCommandOptions& options) {
  const CommandOutput output("bench decode", common.json);
  const std::vector<DecodeCase> cases = cases_of(shapes, workload, options);
  constexpr int64_t kMib = int64_t{1} << 20;
  GpuBench bench({repeat, options.num_caches, options.flush_mib * kMib, options.copy_mib * kMib});
  const GpuReference& reference = bench.reference();

  Progress progress("decode", static_cast<int64_t>(cases.size()));
  std::vector<GpuDecodeResult> results;
  Json list = Json::array();
  for (const DecodeCase& decode : cases) {
    progress.set_label(fmt::format("decode {}, {}", decode.shape.str(), describe(decode)));
    results.push_back({decode, with_context("shape " + decode.shape.str(),
                                            [&] { return bench.decode(decode); })});
    list.push_back(gpu_decode_json(reference, results.back()));
    progress.step();
  }
  progress.finish();
  output.print(
      "decode on {}, random pages, {}, {} repetitions, {} MiB written before each\n"
      "copy speed {:.0f} GB/s (read and written), an empty kernel {:.1f} us\n\n{}",
      reference.name, workload.dtype, repeat, options.flush_mib, reference.copy_bytes_per_s * 1e-9,
      reference.empty_kernel_s * 1e6, gpu_decode_table(reference, results));
  output.write_json({{"machine", machine_json()},
                     {"backend", "cuda"},
                     {"gpu", reference.name},
                     {"repeat", repeat},
                     {"dtype", workload.dtype},
                     {"flush_bytes", options.flush_mib * kMib},
                     {"copy_gb_per_s", reference.copy_bytes_per_s * 1e-9},
                     {"empty_kernel_s", reference.empty_kernel_s},
                     {"results", list}});
}

}  // namespace mpfa::tools
