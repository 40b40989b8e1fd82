// What was built, and what this machine uses of it.
#include <hwy/targets.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>

#include "cpu/attention_kernel.h"
#include "export.h"

namespace mpfa::python {
namespace {

using tvm::ffi::Map;
using tvm::ffi::String;

Map<String, String> build_info() {
  const int64_t supported = hwy::SupportedTargets();  // the better target has the lower bit
  return {{"version", MPFA_VERSION},
          {"cuda_architectures", MPFA_CUDA_ARCHITECTURES_TEXT},
          {"simd_target", hwy::TargetName(supported & -supported)},
          {"attention_target", internal::attention_target_name()}};
}

}  // namespace
}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(build_info)
