// attention() on the CPU.
#pragma once

#include "core/attention_memory.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

void cpu_attention(const AttentionCall& call, const AttentionParams& params, const Plan& plan);

}  // namespace mpfa::internal
