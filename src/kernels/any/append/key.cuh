// The codes of K: a lane's block of a row, centred and quantised.
#pragma once

#include "kernels/any/append/input.cuh"
#include "kernels/any/append/nvfp4.cuh"
#include "kernels/any/append/row.cuh"

namespace mpfa::kernels {

// A block of a centred key and what quantisation made of it.
struct KeyBlock {
  float centred[kNvfp4BlockSize];    // Kc
  float quantized[kNvfp4BlockSize];  // as quantize_block() leaves it
  QuantizedBlock block;
  float k_scale;
};

// Quantises Kc / k_scale and writes codes and scales. All lanes of the warp take part.
__device__ __forceinline__ void write_key(const AppendParams& p, const AppendRow& row,
                                          const ScaleEntry* table, int in_row, KeyBlock& key) {
  key.k_scale = 1.0f;
  if (p.k_scale != nullptr && row.is_written) {
    key.k_scale =
        __ldg(p.k_scale + row.stats_row * p.k_scale_strides[0] + row.head * p.k_scale_strides[1]);
  }
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) key.quantized[i] = key.centred[i];
  divide(key.quantized, key.k_scale);
  key.block = quantize_block(key.quantized, p.scale_rule, table);
  if (!row.is_written) return;
  const uint32_t codes[2] = {key.block.codes.x, key.block.codes.y};
  store_bytes<8>(place(p.k_codes, p.k_codes_strides, row, row.head) + in_row * 8, codes,
                 p.output_vectors);
  place(p.k_scales, p.k_scales_strides, row, row.head)[in_row] =
      static_cast<std::byte>(key.block.scale);
}

// Kc - K^, 0 where Kc is infinite. Infinite elements of Kc become their K^.
__device__ __forceinline__ void find_error(KeyBlock& key, float (&error)[kNvfp4BlockSize]) {
  float(&x)[kNvfp4BlockSize] = key.quantized;
  restore(x, key.block);
  if (key.k_scale != 1.0f) {
#pragma unroll
    for (int i = 0; i < kNvfp4BlockSize; ++i) x[i] = __fmul_rn(x[i], key.k_scale);
  }
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) error[i] = __fsub_rn(key.centred[i], x[i]);
  if (key.block.is_finite) return;
#pragma unroll
  for (int i = 0; i < kNvfp4BlockSize; ++i) {
    if (!isinf(key.centred[i])) continue;
    error[i] = 0.0f;
    key.centred[i] = x[i];
  }
}

}  // namespace mpfa::kernels
