// Files that the demo needs, in share/mpfa beside the folder of the program, built or installed.
// They are looked for nowhere else: a file of the same name in the current folder is not ours.
#pragma once

#include <string>

namespace mpfa::tools {

inline constexpr const char* kDemoDataName = "smollm2_qkv_512.safetensors";

// The activations. Throws IoError telling where they should be.
std::string find_demo_data();

// report.py, which draws the figures, by its absolute path; empty if it is not there.
std::string find_report_script();

}  // namespace mpfa::tools
