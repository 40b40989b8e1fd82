// Files that the demo needs beside the program, wherever it was built or installed.
#pragma once

#include <string>

namespace mpfa::tools {

inline constexpr const char* kDemoDataName = "smollm2_qkv_512.safetensors";

// The activations. Throws IoError telling where it looked.
std::string find_demo_data();

// scripts/report.py, which draws the figures; empty if it is nowhere.
std::string find_report_script();

}  // namespace mpfa::tools
