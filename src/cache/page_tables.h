// The tables that say which pages belong to which sequence.
#pragma once

#include <dlpack/dlpack.h>

#include "core/cache_layout.h"

namespace mpfa::internal {

// Checks block_table [b, max_pages] and seq_lens [b] (both or neither) and stats_index [b] against
// a cache: lengths within max_pages * page_size, the pages that they use within the cache, rows of
// statistics within num_stats. Entries of block_table past a sequence's end may be anything. Throws
// InvalidArgument naming the tensor and element.
void check_page_tables(const CacheTensors& cache, const DLTensor* block_table,
                       const DLTensor* seq_lens);

}  // namespace mpfa::internal
