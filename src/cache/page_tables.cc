#include "cache/page_tables.h"

#include "core/block_table.h"
#include "core/stats_index.h"
#include "core/tensor.h"
#include "mpfa/check.h"

namespace mpfa::internal {
void check_page_tables(const CacheTensors& cache, const DLTensor* block_table,
                       const DLTensor* seq_lens) {
  MPFA_CHECK((block_table == nullptr) == (seq_lens == nullptr),
             block_table == nullptr ? "block_table" : "seq_lens",
             " is missing: it is required with ",
             block_table == nullptr ? "seq_lens" : "block_table");
  MPFA_CHECK(!cache.stats_index || cache.stats_index.size(0) >= 1,
             "stats_index is empty: needs at least one sequence");
  if (block_table == nullptr) {
    check_stats_index(cache.stats_index, cache.stats_index.size(0), cache.num_stats);
    return;
  }
  const auto table = Tensor<int32_t, 2>::from(*block_table, "block_table", false);
  const auto lengths = Tensor<int32_t, 1>::from(*seq_lens, "seq_lens", false);
  MPFA_CHECK(!table.empty(), "block_table has shape ", shape_string(*block_table),
             ": needs at least one sequence and one page");
  check_size(*seq_lens, "seq_lens", 0, table.size(0), "as block_table has");
  MPFA_CHECK(!cache.stats_index || cache.stats_index.size(0) == table.size(0), "stats_index has ",
             cache.stats_index.size(0), " elements: must have one per sequence, ", table.size(0));
  check_stats_index(cache.stats_index, table.size(0), cache.num_stats);
  check_block_table(cache, table, lengths);
}

}  // namespace mpfa::internal
