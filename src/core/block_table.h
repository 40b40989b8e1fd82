// The pages of a batch's sequences.
#pragma once

#include "core/cache_layout.h"

namespace mpfa::internal {

// Checks that every length fits its row of block_table [b, max_pages] and that the pages which it
// uses lie in the cache; entries past a sequence's end may be anything. seq_lens [b].
void check_block_table(const CacheTensors& cache, const Tensor<int32_t, 2>& block_table,
                       const Tensor<int32_t, 1>& seq_lens);

}  // namespace mpfa::internal
