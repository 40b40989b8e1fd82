// Whether this build can use a GPU, and whether there is one.
#pragma once

#include <string>

namespace mpfa::tools {

struct GpuSupport {
  bool is_built = false;   // the library has the GPU back end
  bool is_usable = false;  // and a GPU that it runs on is there
  std::string detail;      // which, or why not: "NVIDIA H200 (sm_90)"
};

GpuSupport gpu_support();

}  // namespace mpfa::tools
