// mpfa calibrate: statistics of every layer of a file, for caches that are written later.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "common/cache_options.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/file_roles.h"
#include "common/glob.h"
#include "common/layer_file.h"
#include "common/layer_stats.h"
#include "common/output_guard.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/threads.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

struct CalibrateOptions {
  CommonOptions common;
  std::string input;
  std::string output;
  std::vector<std::string> layers;
  int64_t residual_rank = 8;
  std::string scale_rule = "search";
  bool delta_s = false;
  int64_t tokens = -1;
};

constexpr const char* kFooter = R"(
For each layer <layer>.q, <layer>.k (or plain q, k; shape [heads, tokens, d]) the file gets
  <layer>.k_mean [1, Hkv, d], <layer>.q_mean [1, Hq, d],
  <layer>.residual_basis [1, Hkv, R, d], <layer>.residual_scale [1, Hkv, R], all F32.

Examples:
  mpfa calibrate sample.safetensors -o stats.safetensors
  mpfa calibrate sample.safetensors -o stats.safetensors --residual-rank 16 --tokens 4096
  mpfa calibrate sample.safetensors -o stats.safetensors --layer 'layer0*'
)";

void run_calibrate(const CalibrateOptions& options) {
  check_file_roles({{"the input", options.input}},
                   {{"-o", options.output}, {"--json", options.common.json}});
  const CommandOutput output("calibrate", options.common.json);
  const ThreadLimit threads(options.common.threads);
  const LayerFile file = LayerFile::open(options.input);
  const std::vector<std::string> names = choose_layers(file, options.layers);
  check_writable(options.output);

  Table table(
      {{"layer", Align::kLeft}, {"tokens"}, {"query\nheads"}, {"KV\nheads"}, {"d"}, {"rank"}});
  Json layers = Json::array();
  std::vector<LayerStats> stats;
  internal::SafetensorsWriter writer;
  Progress progress("calibrating", static_cast<int64_t>(names.size()));
  stats.reserve(names.size());  // the writer keeps pointers
  for (const std::string& name : names) {
    const Layer layer = first_tokens(file.load(name, {.q = true, .k = true}), options.tokens);
    stats.emplace_back(layer.q.size(1), layer.k.size(1), layer.k.size(2), options.residual_rank);
    calibrate_layer(
        layer, stats.back().view(),
        {.scale_rule = scale_rule_from_name(options.scale_rule), .delta_s = options.delta_s});
    add_stats(writer, name, stats.back());
    table.add_row({name.empty() ? "(unnamed)" : name, fmt::format("{}", layer.k.size(0)),
                   fmt::format("{}", layer.q.size(1)), fmt::format("{}", layer.k.size(1)),
                   fmt::format("{}", layer.k.size(2)), fmt::format("{}", options.residual_rank)});
    layers.push_back({{"layer", name},
                      {"tokens", layer.k.size(0)},
                      {"num_q_heads", layer.q.size(1)},
                      {"num_kv_heads", layer.k.size(1)},
                      {"head_dim", layer.k.size(2)}});
    progress.step();
  }
  writer.add_metadata("mpfa_version", MPFA_VERSION);
  writer.add_metadata("scale_rule", options.scale_rule);
  writer.add_metadata("delta_s", options.delta_s ? "true" : "false");
  {
    const OutputGuard guard(options.output);
    writer.write(options.output);
  }
  progress.finish();
  output.print("{}\nWrote {}.\n", table.str(), internal::quote_path(options.output));
  output.write_json({{"input", options.input},
                     {"output", options.output},
                     {"residual_rank", options.residual_rank},
                     {"scale_rule", options.scale_rule},
                     {"delta_s", options.delta_s},
                     {"layers", layers}});
}

}  // namespace

void register_calibrate(CLI::App& app) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "Compute the means and the residual basis of each layer from sample Q and K");
  command->footer(kFooter);
  command->add_option("input", options->input, "Sample Q and K of one or more layers")
      ->required()
      ->type_name("IN.safetensors");
  command->add_option("-o,--output", options->output, "Where the statistics go")
      ->required()
      ->type_name("STATS.safetensors");
  command->add_option("--layer", options->layers, "Only these layers; * stands for any text")
      ->type_name("NAME");
  add_residual_rank_option(*command, options->residual_rank);
  add_scale_rule_option(*command, options->scale_rule);
  command->add_flag("--delta-s", options->delta_s,
                    "For caches with delta_s: take the residual basis from Q less its mean");
  command->add_option("--tokens", options->tokens, "Use the input's first N tokens only")
      ->check(whole_number(1, INT32_MAX))
      ->type_name("N");
  add_common_options(*command, options->common);
  command->callback([options] { run_calibrate(*options); });
}

}  // namespace mpfa::tools
