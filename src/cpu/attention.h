// attention() and merge_states() on the CPU.
#pragma once

#include <span>

#include "core/attention_memory.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

void cpu_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan);

void cpu_merge_states(const DLTensor& out, const DLTensor* lse,
                      std::span<const DLTensor* const> outs, std::span<const DLTensor* const> lses);

}  // namespace mpfa::internal
