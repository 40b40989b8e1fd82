// mpfa compare: what each precision assignment costs in accuracy, on the user's own activations.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/errors.h"
#include "common/file_roles.h"
#include "common/glob.h"
#include "common/layer_file.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/threads.h"
#include "cpu/policy.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

using internal::Policy;
using internal::PolicyResult;

constexpr size_t kMaxLayerColumns = 6;  // as many as an 80-column terminal takes

struct CompareOptions {
  CommonOptions common;
  std::string input;
  std::vector<std::string> layers;
  std::vector<std::string> policies;
  int64_t basis_queries = 128;
  bool causal = true;
  bool per_head = false;
};

// One layer under every chosen policy.
struct LayerResult {
  std::string layer;
  int64_t head_dim = 0;
  int64_t group = 0;
  std::vector<PolicyResult> policies;
};

std::string footer() {
  std::string text =
      "Error is the relative L2 distance of the attention output from FP64 attention over the\n"
      "unquantised input. Means are taken over all tokens, the residual basis U from the first\n"
      "queries. Policies:\n";
  for (const Policy& policy : internal::all_policies()) {
    text += fmt::format("  {:<28} {}\n", policy.name, policy.description);
  }
  return text +
         "\nExamples:\n"
         "  mpfa compare qkv.safetensors\n"
         "  mpfa compare qkv.safetensors --layer layer00 --policy default,mpfa,fp8_k --per-head\n"
         "  mpfa compare qkv.safetensors --policy 'nvfp4_*' --json errors.json\n";
}

std::vector<Policy> choose_policies(const std::vector<std::string>& lists) {
  std::vector<std::string> patterns;
  for (const std::string& list : lists) {
    const size_t before = patterns.size();
    split_commas(list, patterns);
    if (patterns.size() == before) {
      throw UsageError("--policy " + internal::quote(list) + ": must name a policy");
    }
  }
  std::vector<std::string> names;
  for (const Policy& policy : internal::all_policies()) names.push_back(policy.name);
  std::vector<Policy> chosen;
  try {
    for (const std::string& name : choose_names(names, patterns, "policy")) {
      chosen.push_back(*internal::find_policy(name));
    }
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
  return chosen;
}

LayerResult compare_layer(const LayerFile& file, const std::string& name,
                          const std::vector<Policy>& policies, const CompareOptions& options,
                          Progress& progress) {
  const Layer layer = file.load(name, {.q = true, .k = true, .v = true});
  internal::PolicyInputs inputs;
  inputs.causal = options.causal;
  inputs.basis_queries = {0, std::min(options.basis_queries, layer.q.size(0))};
  LayerResult result;
  result.layer = name;
  result.head_dim = layer.k.size(2);
  result.group = layer.q.size(1) / layer.k.size(1);
  result.policies = with_layer(
      layer, [&] { return internal::run_policies(policies, layer.q, layer.k, layer.v, inputs); });
  progress.step();
  return result;
}

// A policy over all layers and heads.
struct Summary {
  double mean = 0.0;
  double cosine = 0.0;
  double worst = -1.0;
  std::string worst_layer;
  size_t worst_head = 0;
};

Summary summarise(const std::vector<LayerResult>& layers, size_t policy) {
  Summary summary;
  for (const LayerResult& layer : layers) {
    const PolicyResult& result = layer.policies[policy];
    const auto count = static_cast<double>(layers.size());
    summary.mean += result.mean_relative_l2() / count;
    summary.cosine += result.mean_cosine() / count;
    const auto worst = std::max_element(result.relative_l2.begin(), result.relative_l2.end());
    if (*worst <= summary.worst) continue;
    summary.worst = *worst;
    summary.worst_layer = layer.layer;
    summary.worst_head = static_cast<size_t>(worst - result.relative_l2.begin());
  }
  return summary;
}

std::string bytes_cell(double bytes) { return fmt::format("{:g}", bytes); }

// Bytes depend on the layer's shape; a column fits only if all layers agree.
bool one_shape(const std::vector<LayerResult>& layers) {
  return std::all_of(layers.begin(), layers.end(), [&](const LayerResult& layer) {
    return layer.head_dim == layers[0].head_dim && layer.group == layers[0].group;
  });
}

std::string summary_table(const std::vector<Policy>& policies,
                          const std::vector<LayerResult>& layers) {
  const bool layer_columns = layers.size() > 1 && layers.size() <= kMaxLayerColumns;
  const bool bytes = one_shape(layers);
  std::vector<Column> columns = {{"policy", Align::kLeft}};
  if (bytes) columns.insert(columns.end(), {{"K\nbytes"}, {"V\nbytes"}});
  if (layer_columns) {
    for (const LayerResult& layer : layers) columns.push_back({"error\n" + layer.layer});
  }
  columns.insert(columns.end(), {{"mean\nerror"}, {"mean\ncosine"}, {"worst\nhead"}});
  columns.push_back({"which", Align::kLeft});
  Table table(columns);
  for (size_t p = 0; p < policies.size(); ++p) {
    const Summary summary = summarise(layers, p);
    std::vector<std::string> row = {policies[p].name};
    if (bytes) {
      row.push_back(bytes_cell(policy_k_bytes(policies[p], layers[0].head_dim, layers[0].group)));
      row.push_back(bytes_cell(policy_v_bytes(policies[p], layers[0].head_dim)));
    }
    if (layer_columns) {
      for (const LayerResult& layer : layers) {
        row.push_back(fmt::format("{:.4f}", layer.policies[p].mean_relative_l2()));
      }
    }
    row.push_back(fmt::format("{:.4f}", summary.mean));
    row.push_back(fmt::format("{:.5f}", summary.cosine));
    row.push_back(fmt::format("{:.4f}", summary.worst));
    row.push_back(summary.worst_layer + fmt::format(" {}", summary.worst_head));
    table.add_row(std::move(row));
  }
  return table.str();
}

std::string head_table(const std::vector<Policy>& policies, const LayerResult& layer) {
  std::vector<Column> columns = {{"policy", Align::kLeft}};
  for (size_t head = 0; head < layer.policies[0].relative_l2.size(); ++head) {
    columns.push_back({fmt::format("head {}", head)});
  }
  Table table(columns);
  for (size_t p = 0; p < policies.size(); ++p) {
    std::vector<std::string> row = {policies[p].name};
    for (const double error : layer.policies[p].relative_l2) {
      row.push_back(fmt::format("{:.4f}", error));
    }
    table.add_row(std::move(row));
  }
  return table.str();
}

Json layer_json(const std::vector<Policy>& policies, const LayerResult& layer) {
  Json list = Json::array();
  for (size_t p = 0; p < policies.size(); ++p) {
    const PolicyResult& result = layer.policies[p];
    list.push_back({{"policy", policies[p].name},
                    {"k_bytes", policy_k_bytes(policies[p], layer.head_dim, layer.group)},
                    {"v_bytes", policy_v_bytes(policies[p], layer.head_dim)},
                    {"mean_relative_l2", result.mean_relative_l2()},
                    {"worst_relative_l2", result.worst_relative_l2()},
                    {"mean_cosine", result.mean_cosine()},
                    {"relative_l2", result.relative_l2},
                    {"cosine", result.cosine}});
  }
  return {{"layer", layer.layer},
          {"head_dim", layer.head_dim},
          {"group_size", layer.group},
          {"policies", list}};
}

void run_compare(const CompareOptions& options) {
  check_file_roles({{"the input", options.input}}, {{"--json", options.common.json}});
  const CommandOutput output("compare", options.common.json);
  const ThreadLimit threads(options.common.threads);
  const std::vector<Policy> policies = choose_policies(options.policies);
  const LayerFile file = LayerFile::open(options.input);
  const std::vector<std::string> names = choose_layers(file, options.layers);

  std::vector<LayerResult> layers;
  layers.reserve(names.size());
  Progress progress("comparing", static_cast<int64_t>(names.size()));
  for (const std::string& name : names) {
    layers.push_back(compare_layer(file, name, policies, options, progress));
  }
  progress.finish();
  output.print("{}", summary_table(policies, layers));
  if (options.per_head) {
    for (const LayerResult& layer : layers) {
      output.print("\n{}\n{}", layer.layer, head_table(policies, layer));
    }
  }
  Json list = Json::array();
  for (const LayerResult& layer : layers) list.push_back(layer_json(policies, layer));
  output.write_json({{"input", options.input},
                     {"causal", options.causal},
                     {"basis_queries", options.basis_queries},
                     {"layers", list}});
}

}  // namespace

void register_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app.add_subcommand("compare", "Error of every precision assignment against FP64 attention");
  command->footer(footer());
  command->add_option("input", options->input, "q, k and v of one or more layers")
      ->required()
      ->type_name("IN.safetensors");
  command->add_option("--layer", options->layers, "Only these layers; * stands for any text")
      ->type_name("NAME");
  command
      ->add_option("--policy", options->policies,
                   "Only these policies, separated by commas; * stands for any text")
      ->type_name("NAME");
  command->add_option("--basis-queries", options->basis_queries, "Queries that give the basis U")
      ->check(whole_number(1))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("!--no-causal", options->causal, "Queries see all keys");
  command->add_flag("--per-head", options->per_head, "Show every head's error");
  add_common_options(*command, options->common);
  command->callback([options] { run_compare(*options); });
}

}  // namespace mpfa::tools
