// Stands in for gpu_support.cc in builds without CUDA.
#include "common/gpu_support.h"

namespace mpfa::tools {

GpuSupport gpu_support() {
  return {false, false, "this build has the CPU back end only, as nvcc was not found"};
}

}  // namespace mpfa::tools
