// mpfa bench: times the cache writer and attention on shapes of the user's choice.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu_command.h"
#include "bench/prefill_command.h"
#include "bench/samples.h"
#include "bench/workload.h"
#include "commands.h"
#include "common/bench_shape.h"
#include "common/cache_options.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/errors.h"
#include "common/machine.h"
#include "common/progress.h"
#include "common/require_command.h"
#include "common/table.h"
#include "common/threads.h"
#include "core/shapes.h"

namespace mpfa::tools {
namespace {

struct BenchOptions {
  CommonOptions common;
  WorkloadOptions workload;
  GpuCommandOptions gpu;
  PrefillCommandOptions prefill;
  std::string shapes;
  int64_t repeat = 0;  // 0: the back end's default
  bool no_first_key = false;
};

constexpr int64_t kCpuRepeat = 10;

// On a GPU.
int64_t gpu_repeat(BenchMode mode) { return mode == BenchMode::kDecode ? 20 : 9; }

// One shape's times.
struct Timing {
  BenchShape shape;
  Samples samples;
  double cache_bytes = 0.0;
  double input_bytes = 0.0;
  double tokens = 0.0;
  double flops = 0.0;
};

std::string default_shapes(BenchMode mode) {
  switch (mode) {
    case BenchMode::kAppend:
      return "1x32:8x128@4096,8x9:3x64@512";
    case BenchMode::kDecode:
      return "1x32:8x128@4096,1x32:8x128@32768,8x9:3x64@2048";
    default:
      return "1x32:8x128@512,1x32:8x128@2048,1x9:3x64@2048";
  }
}

std::string what_it_times(BenchMode mode) {
  switch (mode) {
    case BenchMode::kAppend:
      return "append_kv: LENGTH new tokens for each sequence";
    case BenchMode::kDecode:
      return "attention with one query row per sequence over LENGTH tokens";
    default:
      return "causal attention with LENGTH query rows over LENGTH tokens";
  }
}

Timing time_shape(BenchMode mode, const BenchShape& shape, const BenchOptions& options) {
  Progress progress(fmt::format("{} {}", mode_name(mode), shape.str()), options.repeat);
  Workload workload(mode, shape, options.workload);
  workload.run();  // once to touch the memory
  Timing timing;
  timing.shape = shape;
  timing.cache_bytes = workload.cache_bytes();
  timing.input_bytes = workload.input_bytes();
  timing.tokens = workload.tokens();
  timing.flops = workload.flops();
  for (int64_t i = 0; i < options.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    workload.run();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    timing.samples.seconds.push_back(std::max(elapsed.count(), 1e-9));  // the clock may stand still
    progress.step();
  }
  return timing;
}

// How fast a shape was, by what its mode is bound by: bytes, or arithmetic.
struct Rate {
  const char* header;
  double amount;  // per call
};

std::vector<Rate> rates(BenchMode mode, const Timing& timing) {
  switch (mode) {
    case BenchMode::kAppend:
      return {{"input\nGB/s", timing.input_bytes}, {"cache\nGB/s", timing.cache_bytes}};
    case BenchMode::kDecode:
      return {{"cache\nGB/s", timing.cache_bytes}, {"GFLOPS", timing.flops}};
    default:
      return {{"GFLOPS", timing.flops}};
  }
}

std::string timing_table(BenchMode mode, const std::vector<Timing>& timings) {
  std::vector<Column> columns = {{"shape", Align::kLeft}, {"median\nms"}, {"min\nms"}, {"max\nms"}};
  for (const Rate& rate : rates(mode, timings[0])) columns.push_back({rate.header});
  columns.push_back({"tokens/s"});
  Table table(columns);
  for (const Timing& timing : timings) {
    const double median = timing.samples.median();
    std::vector<std::string> row = {timing.shape.str()};
    for (const double seconds : {median, timing.samples.min(), timing.samples.max()}) {
      row.push_back(fmt::format("{:.3f}", seconds * 1e3));
    }
    for (const Rate& rate : rates(mode, timing)) {
      row.push_back(fmt::format("{:.2f}", rate.amount / median * 1e-9));
    }
    row.push_back(group_digits(timing.tokens / median));
    table.add_row(std::move(row));
  }
  return table.str();
}

Json timing_json(const Timing& timing) {
  const double median = timing.samples.median();
  return {{"shape", timing.shape.str()},
          {"batch_size", timing.shape.batch_size},
          {"num_q_heads", timing.shape.num_q_heads},
          {"num_kv_heads", timing.shape.num_kv_heads},
          {"head_dim", timing.shape.head_dim},
          {"length", timing.shape.length},
          {"median_s", median},
          {"min_s", timing.samples.min()},
          {"max_s", timing.samples.max()},
          {"seconds", timing.samples.seconds},
          {"cache_bytes", timing.cache_bytes},
          {"cache_gb_per_s", timing.cache_bytes / median * 1e-9},
          {"input_bytes", timing.input_bytes},
          {"input_gb_per_s", timing.input_bytes / median * 1e-9},
          {"tokens_per_s", timing.tokens / median},
          {"gflops", timing.flops / median * 1e-9}};
}

void run_bench(BenchMode mode, BenchOptions options) {
  if (options.shapes.empty()) options.shapes = default_shapes(mode);
  if (options.repeat == 0) options.repeat = kCpuRepeat;
  const CommandOutput output("bench " + mode_name(mode), options.common.json);
  const ThreadLimit threads(options.common.threads);
  const std::vector<BenchShape> shapes = parse_bench_shapes(options.shapes);

  std::vector<Timing> timings;
  Json list = Json::array();
  for (const BenchShape& shape : shapes) {
    timings.push_back(
        with_context("shape " + shape.str(), [&] { return time_shape(mode, shape, options); }));
    list.push_back(timing_json(timings.back()));
  }
  output.print("{}, {} threads, {} repetitions\n\n{}", what_it_times(mode), active_threads(),
               options.repeat, timing_table(mode, timings));
  output.write_json({{"machine", machine_json()},
                     {"backend", "cpu"},
                     {"repeat", options.repeat},
                     {"dtype", options.workload.dtype},
                     {"page_size", options.workload.page_size},
                     {"residual_rank", options.workload.residual_rank},
                     {"first_key", options.workload.first_key},
                     {"delta_s", options.workload.delta_s},
                     {"results", list}});
}

void run_decode(const CLI::App& command, const BenchOptions& options) {
  check_gpu_options(command, options.gpu, options.workload);
  if (options.gpu.backend != "cuda") return run_bench(BenchMode::kDecode, options);
  const int64_t repeat = options.repeat == 0 ? gpu_repeat(BenchMode::kDecode) : options.repeat;
  run_gpu_decode(options.common, options.shapes, repeat, options.workload, options.gpu);
}

void run_prefill(const CLI::App& command, const BenchOptions& options) {
  check_prefill_gpu_options(command, options.prefill, options.workload);
  if (options.prefill.backend != "cuda") return run_bench(BenchMode::kPrefill, options);
  const int64_t repeat = options.repeat == 0 ? gpu_repeat(BenchMode::kPrefill) : options.repeat;
  run_gpu_prefill(options.common, options.shapes, repeat, options.workload, options.prefill);
}

std::string gpu_examples(BenchMode mode) {
  switch (mode) {
    case BenchMode::kAppend:
      return "";
    case BenchMode::kDecode:
      return "  mpfa bench decode --backend cuda\n"
             "  mpfa bench decode --backend cuda --shapes 8x32:8x128@64K --lengths uniform\n";
    default:
      return "  mpfa bench prefill --backend cuda\n"
             "  mpfa bench prefill --backend cuda --shapes 1x32:8x128@64K --seqlen-q 8192\n";
  }
}

void register_mode(CLI::App& bench, BenchMode mode) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = bench.add_subcommand(mode_name(mode), "Time " + what_it_times(mode));
  command->footer(fmt::format(
      "\nA shape is BATCHxHQ:HKVxD@LENGTH: sequences, query heads, KV heads, head dimension ({1})\n"
      "and tokens of each sequence; a number may end in K (1024).\n\nExamples:\n"
      "  mpfa bench {0}\n  mpfa bench {0} --shapes 1x32:8x128@32K,8x40:8x128@4K --threads 2\n"
      "  mpfa bench {0} --shapes 1x9:3x64@2048 --repeat 50 --json times.json\n{2}",
      mode_name(mode), internal::alternatives(internal::kHeadDims), gpu_examples(mode)));
  command->add_option("--shapes", options->shapes, "What to measure, separated by commas")
      ->type_name("LIST")
      ->default_str(default_shapes(mode));
  command
      ->add_option("--repeat", options->repeat,
                   mode == BenchMode::kAppend
                       ? "Repetitions of each shape"
                       : fmt::format("Repetitions of each shape (on a GPU {})", gpu_repeat(mode)))
      ->check(whole_number(1, 1000000))
      ->type_name("N")
      ->default_str(std::to_string(kCpuRepeat));
  command->add_option("--dtype", options->workload.dtype, "Type of q, k and v: bf16, fp16, fp32")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}))
      ->type_name("TYPE")
      ->capture_default_str();
  add_page_size_option(*command, options->workload.page_size);
  add_residual_rank_option(*command, options->workload.residual_rank);
  command->add_flag("--no-first-key", options->no_first_key, "A cache without k_first");
  command->add_flag("--delta-s", options->workload.delta_s, "A cache with delta_s");
  if (mode != BenchMode::kAppend) {
    add_kv_split_size_option(*command, options->workload.kv_split_size);
  }
  if (mode == BenchMode::kDecode) add_gpu_options(*command, options->gpu);
  if (mode == BenchMode::kPrefill) add_prefill_gpu_options(*command, options->prefill);
  add_common_options(*command, options->common);
  command->callback([mode, options, command] {
    options->workload.first_key = !options->no_first_key;
    if (mode == BenchMode::kDecode) return run_decode(*command, *options);
    if (mode == BenchMode::kPrefill) return run_prefill(*command, *options);
    run_bench(mode, *options);
  });
}

}  // namespace

void register_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Time the cache writer, decode or prefill on given shapes");
  command->require_subcommand(0, 1);
  command->callback([command] { require_command(*command); });
  command->footer(
      "\nExamples:\n"
      "  mpfa bench decode --shapes 1x32:8x128@32K\n"
      "  mpfa bench append --help\n");
  register_mode(*command, BenchMode::kAppend);
  register_mode(*command, BenchMode::kDecode);
  register_mode(*command, BenchMode::kPrefill);
}

}  // namespace mpfa::tools
