// The arguments of merge_states(), checked once and turned into typed tensors; shared by all back
// ends.
#pragma once

#include <span>
#include <vector>

#include "core/attention_args.h"

namespace mpfa::internal {

struct AttentionState {
  ActivationTensor out;  // [total_q, Hq, d]
  Tensor<float, 2> lse;  // [total_q, Hq]; absent where a result's is not asked for
};

struct MergeInputs {
  AttentionState result;
  std::vector<AttentionState> parts;  // at least one
  int64_t head_dim = 0;
};

// Throws InvalidArgument naming what does not fit, overlaps included.
MergeInputs check_merge_inputs(const DLTensor& out, const DLTensor* lse,
                               std::span<const DLTensor* const> outs,
                               std::span<const DLTensor* const> lses);

}  // namespace mpfa::internal
