// mpfa info: the build, the machine, and which kernels can run on it.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "commands.h"
#include "common/command_output.h"
#include "common/common_options.h"
#include "common/gpu_support.h"
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

std::vector<Kernel> kernels(const GpuSupport& gpu) {
  const std::string simd = "SIMD target " + simd_target();
  return {
      {"append_kv", "CPU", true, simd},
      {"attention (d = " + internal::alternatives(internal::kHeadDims) + ")", "CPU", true,
       std::string("SIMD target ") + internal::attention_target_name()},
      {"merge_states", "CPU", true, "portable code"},
      {"compute_means, calibrate", "CPU", true, simd},
      {"quantize_q", "CPU", true, "portable code"},
      {"FP64 oracle, policies", "CPU", true, "portable code, for comparison only"},
      {"append_kv, compute_means", "GPU", gpu.is_usable, gpu.detail},
      {"attention (decode, prefill)", "GPU", gpu.is_usable, gpu.detail},
      {"quantize_q, merge_states", "GPU", gpu.is_usable, gpu.detail},
  };
}

// `models` as the driver lists them.
std::string gpu_text(const std::vector<std::string>& models, const GpuSupport& gpu) {
  if (gpu.is_usable) return gpu.detail;
  std::string text;
  for (const std::string& model : models) text += (text.empty() ? "" : ", ") + model;
  return (text.empty() ? "none found" : text + "; not used") + ": " + gpu.detail;
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
               const std::vector<std::string>& gpus, const GpuSupport& gpu) {
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
          {"gpu_support", gpu.is_built},
          {"kernels", kernel_list}};
}

void run_info(const CommonOptions& options) {
  const CommandOutput output("info", options.json);
  const ThreadLimit threads(options.threads);
  const auto features = cpu_features();
  const GpuSupport gpu = gpu_support();
  const auto list = kernels(gpu);
  const auto gpus = gpu_models();
  output.print(
      "mpfa {}\nbuild     {}, {}\nCPU       {}\nthreads   {} of {} cores\nGPUs      {}\n\n",
      MPFA_VERSION, build_type(), compiler(), cpu_model(), active_threads(),
      std::thread::hardware_concurrency(), gpu_text(gpus, gpu));
  if (!features.empty()) output.print("{}\n", feature_table(features));
  output.print("{}", kernel_table(list));
  output.write_json(info_json(features, list, gpus, gpu));
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
