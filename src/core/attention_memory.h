// The arguments of one attention() call, and what every back end checks of them beside the inputs.
#pragma once

#include <cstddef>

#include "core/attention_args.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

struct AttentionCall {
  const DLTensor& out;
  const DLTensor* lse;
  const DLTensor& q;
  const KvCacheView& cache;
  const DLTensor& block_table;
  const DLTensor& seq_lens;
  const DLTensor* cu_seqlens_q;
  const DLTensor* workspace;
};

// Checks that plan() made the plan, and sizes and heads against it.
void check_fits_plan(const AttentionInputs& in, const Plan& plan);

// Checks the workspace; nullptr where the plan needs none.
std::byte* check_workspace(const DLTensor* workspace, const Plan& plan, size_t alignment);

// Checks what the call writes against all that it reads.
void check_memory(const AttentionCall& call, const DLTensor* sinks, bool uses_workspace);

}  // namespace mpfa::internal
