// The rounding error that the cache leaves in a key.
#pragma once

#include <cmath>
#include <cstdint>

#include "mpfa/formats.h"

namespace mpfa::internal {

// error = centred - K^, K^ being what the cache reads back: the key over k_scale, in NVFP4, times
// k_scale (docs/spec.md, sections 1 and 2). `size` is a multiple of 16. An infinite element counts
// as its own saturated value, so its error is 0 and no NaN arises.
inline void key_error(const float* centred, int64_t size, float k_scale, ScaleRule rule,
                      float* error) {
  for (int64_t start = 0; start < size; start += kNvfp4BlockSize) {
    float x[kNvfp4BlockSize];
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = centred[start + i] / k_scale;
    const Nvfp4Block block = nvfp4_quantize(x, rule);
    for (int i = 0; i < kNvfp4BlockSize; ++i) {
      const float read = mul_rn(nvfp4_value(block.scale, nvfp4_code(block, i)), k_scale);
      const float value = centred[start + i];
      error[start + i] = std::isinf(value) ? 0.0f : value - read;
    }
  }
}

}  // namespace mpfa::internal
