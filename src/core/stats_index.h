// Which row of statistics a sequence uses.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace mpfa::internal {

// Checks stats_index for a batch: long enough, every row within num_stats. An absent tensor (row 0
// for all) passes; num_stats = 0, where the caller reads no statistics, leaves the rows unchecked.
void check_stats_index(const Tensor<int32_t, 1>& stats_index, int64_t batch_size,
                       int64_t num_stats);

// For a call whose tokens come without `cu_seqlens` (its name) and so belong to one sequence:
// refuses a stats_index of several sequences where rows differ, or each token would silently get
// the first one's statistics.
void check_one_sequence(const Tensor<int32_t, 1>& stats_index, int64_t num_stats,
                        int64_t num_tokens, std::string_view cu_seqlens);

}  // namespace mpfa::internal
