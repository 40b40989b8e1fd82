// What the host hands to the kernel that merges attention states.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/any/input_type.h"

namespace mpfa::kernels {

// As many as fit the 32764 bytes of parameters that a launch may have.
inline constexpr int kMaxMergeParts = 512;
inline constexpr int64_t kMaxMergeRows = INT32_MAX;  // rows * heads
inline constexpr int kMaxMergeDim = 1 << 30;

struct MergeState {
  std::byte* out = nullptr;     // [rows, heads, d], aligned to its elements
  float* lse = nullptr;         // [rows, heads]; of the result: or null
  int64_t out_strides[2] = {};  // bytes from one row and head to the next
  int64_t lse_strides[2] = {};  // elements
  InputType type = InputType::kBf16;
};

struct MergeParams {
  MergeState result = {};  // its tensors may each be exactly those of a part
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t num_parts = 0;  // filled in by launch_merge_states()
};

}  // namespace mpfa::kernels
