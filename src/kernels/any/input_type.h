// Element types of activations that kernels take.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mpfa::kernels {

enum class InputType : uint8_t { kBf16, kFp16, kFp32 };

// Calls launch.operator()<type>(), the type being a run-time value.
template <class Launch>
cudaError_t launch_for_type(InputType type, Launch launch) {
  switch (type) {
    case InputType::kBf16:
      return launch.template operator()<InputType::kBf16>();
    case InputType::kFp16:
      return launch.template operator()<InputType::kFp16>();
    case InputType::kFp32:
      return launch.template operator()<InputType::kFp32>();
  }
  return cudaErrorInvalidValue;
}

}  // namespace mpfa::kernels
