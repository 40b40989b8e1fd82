// mpfa demo: the whole job on real activations, in one command.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/file_roles.h"
#include "common/layer_file.h"
#include "common/machine.h"
#include "common/output_guard.h"
#include "common/progress.h"
#include "common/table.h"
#include "common/threads.h"
#include "demo/data_files.h"
#include "demo/figures.h"
#include "demo/measure.h"
#include "demo/report_page.h"
#include "demo/tables.h"
#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

struct DemoOptions {
  CommonOptions common;
  std::string data;
  std::string report = "report";
  bool no_figures = false;
};

constexpr const char* kFooter = R"(
Figures need Python with matplotlib: the one that MPFA_PYTHON names, else .venv of the source tree
that the program was built in, else python3. Without it the report has the tables only.

Examples:
  mpfa demo
  mpfa demo --report results --json demo.json
  mpfa demo --data my_model_qkv.safetensors
)";

// Makes the folder now, so that nobody waits for a report that has nowhere to go.
void prepare_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw IoError(fmt::format("cannot make the folder {}: {} (choose another with --report)",
                              internal::quote_path(folder), error.message()));
  }
}

void print_tables(const CommandOutput& output, const DemoResult& result, bool expected) {
  const DemoShape& shape = result.shape;
  output.print(
      "{} tokens of prompt, {} decode steps; {} query heads, {} KV heads, d {}; {} threads\n"
      "Bytes are K and V per token and KV head. Error: relative L2 distance from FP64 attention\n"
      "over the unquantised input, mean over heads. Speed is of one layer; \"-\": emulated.\n\n"
      "{}\n"
      "Precision assignments over all {} tokens{}; V and P in e4m3:\n\n{}\n"
      "Bytes per token and KV head, K and V:\n\n{}\n",
      shape.prompt, shape.steps, shape.num_q_heads, shape.num_kv_heads, shape.head_dim,
      active_threads(), method_table(result).str(), shape.tokens,
      expected ? ", beside docs/spec.md, section 2" : "", policy_table(result, expected).str(),
      bytes_table().str());
}

Figures make_figures(const DemoOptions& options, const std::string& json_path) {
  if (options.no_figures) return {{}, "left out by --no-figures"};
  Progress progress("drawing figures");
  return draw_figures(find_report_script(), json_path);
}

void run_demo(const DemoOptions& options) {
  const CommandOutput output("demo", options.common.json);
  const ThreadLimit threads(options.common.threads);
  const std::string data = options.data.empty() ? find_demo_data() : options.data;
  const bool expected = std::filesystem::path(data).filename() == kDemoDataName;
  const LayerFile file = LayerFile::open(data);
  prepare_folder(options.report);
  const std::string page_path = options.report + "/demo.html";
  const std::string json_path = options.report + "/demo.json";
  check_file_roles({{"--data", data}}, {{"demo.html in --report", page_path},
                                        {"demo.json in --report", json_path},
                                        {"--json", options.common.json}});
  check_writable(page_path);
  check_writable(json_path);

  Progress progress("measuring layers", static_cast<int64_t>(file.names().size()));
  const DemoResult result = measure_demo(file, progress);
  progress.finish();
  output.print("mpfa demo: {}\n", data);
  print_tables(output, result, expected);

  Json json = demo_json(result, std::filesystem::path(data).filename().string(), expected);
  json["machine"] = machine_json();
  write_text_file(json_path, json_text(json, 1));
  const Figures figures = make_figures(options, json_path);
  write_text_file(page_path, report_page(result, figures, expected));
  output.print("Wrote {}{}.\n", internal::quote_path(page_path),
               figures.list.empty() ? ", without figures" : "");
  if (figures.list.empty()) output.print("Figures: {}.\n", figures.problem);
  output.write_json(json);
}

}  // namespace

void register_demo(CLI::App& app) {
  const auto options = std::make_shared<DemoOptions>();
  CLI::App* command = app.add_subcommand(
      "demo", "Run prefill and decode on real activations; show memory, accuracy and speed");
  command->footer(kFooter);
  command
      ->add_option("--data", options->data,
                   "Other q, k and v than those of SmolLM2-135M that come with the program")
      ->type_name("FILE");
  command->add_option("--report", options->report, "Folder for demo.html and demo.json")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_flag("--no-figures", options->no_figures, "Tables only; no Python is run");
  add_common_options(*command, options->common);
  command->callback([options] { run_demo(*options); });
}

}  // namespace mpfa::tools
