// What the host hands to the kernel of means.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/any/append/params.h"

namespace mpfa::kernels {

struct MeansParams {
  const std::byte* x = nullptr;         // [tokens, heads, d], of any alignment
  const int32_t* cu_seqlens = nullptr;  // [b + 1], or null: one sequence of all tokens
  float* out = nullptr;                 // [b, heads, d]
  // Bytes from one token and head to the next.
  int64_t x_token_stride = 0, x_head_stride = 0;
  // Elements.
  int64_t cu_seqlens_stride = 1;
  int64_t out_strides[2] = {};  // of a sequence, of a head
  int64_t num_tokens = 0;
  int32_t batch_size = 1;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  InputType type = InputType::kBf16;
};

}  // namespace mpfa::kernels
