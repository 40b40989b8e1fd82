// What append_kv writes for one token and KV head, in scalar code that reads like docs/spec.md,
// sections 1 and 2. It stands on formats.h alone and is the oracle of the fast kernels.
#pragma once

#include "cache/append_row.h"

namespace mpfa::internal {

//   k, v  [d] FP32: the token's key and value, converted exactly from their storage type
void append_token_reference(const AppendConfig& config, const AppendStats& stats, const float* k,
                            const float* v, const AppendTargets& out);

}  // namespace mpfa::internal
