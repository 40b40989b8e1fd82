// How attention over long caches is split.
#pragma once

#include <cstdint>

#include "core/ceil_div.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

// Sequences with at most this many query rows have their keys split over work items; longer ones
// have enough rows to share out. The rule looks at one sequence only, so that a request's result
// does not depend on its neighbours.
inline constexpr int64_t kMaxSplitSeqlenQ = 16;

// Floats kept per query row of a split: the unnormalised output and its state.
inline constexpr int64_t kPartialStateFloats = 8;  // RowState of cpu/attention_kernel.h

// Throws InvalidArgument unless `given` is what plan() makes of given.params: sizes that do not
// belong together would let attention() leave its workspace or count keys twice.
void check_plan(const Plan& given);

}  // namespace mpfa::internal
