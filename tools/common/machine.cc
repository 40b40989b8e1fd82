#include "common/machine.h"

#include <fmt/format.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/threads.h"
#include "cpu/attention_kernel.h"

namespace mpfa::tools {
namespace {

// The text after "key :" in a file of such lines; empty if there is none.
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

std::string cpu_model() {
  const std::string model = value_of("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

std::vector<CpuFeature> cpu_features() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return {
      {"AVX2", __builtin_cpu_supports("avx2") != 0, "8 lanes"},
      {"FMA", __builtin_cpu_supports("fma") != 0, "dot products in attention"},
      {"AVX-512",
       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl"),
       "16 lanes"},
      {"AVX-512 VNNI", __builtin_cpu_supports("avx512vnni") != 0,
       "not used: no product here is of integers"},
      {"AVX-512 VBMI", __builtin_cpu_supports("avx512vbmi") != 0, "table look-ups of codes"},
      {"AVX-512 BF16", __builtin_cpu_supports("avx512bf16") != 0,
       "two products a lane for BF16 queries"},
  };
#else
  return {};
#endif
}

// In Highway's sets of targets the better one has the lower bit.
std::string simd_target() {
  const int64_t supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);
}

std::vector<std::string> gpu_models() {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    const std::string model = value_of(gpu.path() / "information", "Model");
    models.push_back(model.empty() ? "NVIDIA GPU " + gpu.path().filename().string() : model);
  }
  std::sort(models.begin(), models.end());
  return models;
}

double physical_memory() {
  const auto pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  return std::max(0.0, pages * static_cast<double>(::sysconf(_SC_PAGESIZE)));
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GNU {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string build_type() { return MPFA_BUILD_TYPE; }

Json machine_json() {
  return {{"cpu", cpu_model()},
          {"cores", std::thread::hardware_concurrency()},
          {"threads", active_threads()},
          {"simd_target", simd_target()},
          {"attention_target", internal::attention_target_name()},
          {"compiler", compiler()},
          {"build_type", build_type()}};
}

}  // namespace mpfa::tools
