#include "core/block_table.h"

#include "core/ceil_div.h"

namespace mpfa::internal {

void check_block_table(const CacheTensors& cache, const Tensor<int32_t, 2>& block_table,
                       const Tensor<int32_t, 1>& seq_lens) {
  const int64_t max_pages = block_table.size(1);
  for (int64_t b = 0; b < seq_lens.size(0); ++b) {
    const int64_t length = *seq_lens.at(b);
    // Compared in pages: max_pages * page_size may overflow where the table has a stride of 0.
    MPFA_CHECK(length >= 0 && ceil_div(length, cache.page_size) <= max_pages, "seq_lens[", b,
               "] = ", length, ": must be 0 to ", max_pages, " pages of ", cache.page_size,
               " tokens (the width of block_table)");
    for (int64_t p = 0; p * cache.page_size < length; ++p) {
      const int32_t page = *block_table.at(b, p);
      MPFA_CHECK(page >= 0 && page < cache.num_pages, "block_table[", b, ", ", p, "] = ", page,
                 ": must be 0 to ", cache.num_pages - 1);
    }
  }
}

}  // namespace mpfa::internal
