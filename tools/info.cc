// mpfa info: the build, the machine, and which kernels can run on it.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "commands.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/machine.h"
#include "common/table.h"
#include "common/threads.h"
#include "core/shapes.h"
#include "cpu/attention_kernel.h"

namespace mpfa::tools {
namespace {

constexpr const char* kFooter = R"(
Examples:
  mpfa info
  mpfa info --json - | jq .kernels
)";

struct Kernel {
  std::string name;
  std::string device;
  bool available;
  std::string detail;  // the target in use, or why it is not available
};

std::vector<Kernel> kernels() {
  const std::string simd = "SIMD target " + simd_target();
  const std::string no_gpu = "this version has the CPU back end only";
  return {
      {"append_kv", "CPU", true, simd},
      {"attention (d = " + internal::alternatives(internal::kHeadDims) + ")", "CPU", true,
       std::string("SIMD target ") + internal::attention_target_name()},
      {"merge_states", "CPU", true, "portable code"},
      {"compute_means, calibrate", "CPU", true, simd},
      {"quantize_q", "CPU", true, "portable code"},
      {"FP64 oracle, policies", "CPU", true, "portable code, for comparison only"},
      {"append_kv, decode", "GPU sm_80", false, no_gpu},
      {"prefill", "GPU sm_90a", false, no_gpu},
      {"prefill, decode", "GPU sm_100a", false, no_gpu},
  };
}

std::string gpu_text(const std::vector<std::string>& gpus) {
  std::string text;
  for (const std::string& gpu : gpus) text += (text.empty() ? "" : ", ") + gpu;
  if (text.empty()) return "none found; this version would not use one (CPU back end only)";
  return text + "; not used: this version has the CPU back end only";
}

std::string feature_table(const std::vector<CpuFeature>& features) {
  Table table({{"CPU feature", Align::kLeft}, {"here", Align::kLeft}, {"use", Align::kLeft}});
  for (const CpuFeature& feature : features) {
    table.add_row({feature.name, feature.present ? "yes" : "no", feature.use});
  }
  return table.str();
}

std::string kernel_table(const std::vector<Kernel>& list) {
  Table table({{"kernel", Align::kLeft},
               {"device", Align::kLeft},
               {"available", Align::kLeft},
               {"how, or why not", Align::kLeft}});
  for (const Kernel& kernel : list) {
    table.add_row({kernel.name, kernel.device, kernel.available ? "yes" : "no", kernel.detail});
  }
  return table.str();
}

Json info_json(const std::vector<CpuFeature>& features, const std::vector<Kernel>& list,
               const std::vector<std::string>& gpus) {
  Json feature_list = Json::array();
  for (const CpuFeature& feature : features) {
    feature_list.push_back(
        {{"name", feature.name}, {"present", feature.present}, {"use", feature.use}});
  }
  Json kernel_list = Json::array();
  for (const Kernel& kernel : list) {
    kernel_list.push_back({{"name", kernel.name},
                           {"device", kernel.device},
                           {"available", kernel.available},
                           {"detail", kernel.detail}});
  }
  return {{"machine", machine_json()},
          {"cpu_features", feature_list},
          {"gpus", gpus},
          {"gpu_support", false},
          {"kernels", kernel_list}};
}

void run_info(const CommonOptions& options) {
  const CommandOutput output("info", options.json);
  const ThreadLimit threads(options.threads);
  const auto features = cpu_features();
  const auto list = kernels();
  const auto gpus = gpu_models();
  output.print(
      "mpfa {}\nbuild     {}, {}\nCPU       {}\nthreads   {} of {} cores\nGPUs      {}\n\n",
      MPFA_VERSION, build_type(), compiler(), cpu_model(), active_threads(),
      std::thread::hardware_concurrency(), gpu_text(gpus));
  if (!features.empty()) output.print("{}\n", feature_table(features));
  output.print("{}", kernel_table(list));
  output.write_json(info_json(features, list, gpus));
}

}  // namespace

void register_info(CLI::App& app) {
  const auto options = std::make_shared<CommonOptions>();
  CLI::App* command =
      app.add_subcommand("info", "Show the build, the machine and the kernels that can run on it");
  command->footer(kFooter);
  add_common_options(*command, *options);
  command->callback([options] { run_info(*options); });
}

}  // namespace mpfa::tools
