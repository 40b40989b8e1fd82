// How attention over long caches is split.
#pragma once

#include <cstdint>

#include "mpfa/attention.h"

namespace mpfa::internal {

// Sequences with at most this many query rows have their keys split over work items; longer ones
// have enough rows to share out. The rule looks at one sequence only, so that a request's result
// does not depend on its neighbours.
inline constexpr int64_t kMaxSplitSeqlenQ = 16;

// Floats kept per query row of a split: the unnormalised output and its state.
inline constexpr int64_t kPartialStateFloats = 5;  // RowState of cpu/attention_kernel.h

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace mpfa::internal
