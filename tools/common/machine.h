// What the program runs on, and how it was built.
#pragma once

#include <string>
#include <vector>

#include "common/command_output.h"

namespace mpfa::tools {

struct CpuFeature {
  std::string name;  // "AVX-512 BF16"
  bool present;
  std::string use;  // what it speeds up here
};

// "AMD EPYC 9354"; "unknown" where the system does not say.
std::string cpu_model();
// Those that this library has code for.
std::vector<CpuFeature> cpu_features();
// The best instruction set that Highway knows and this CPU has, by Highway's name: "AVX3_DL".
std::string simd_target();
// Names of the NVIDIA GPUs that the driver reports.
std::vector<std::string> gpu_models();

// Bytes of memory; 0 where the system does not say.
double physical_memory();

// "GNU 12.2.0", "Clang 14.0.6".
std::string compiler();
// "Release".
std::string build_type();

// For results that depend on the machine: model, cores, threads, simd_target, attention_target,
// compiler, build_type.
Json machine_json();

}  // namespace mpfa::tools
