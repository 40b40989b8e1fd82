#include "cache/page_tables.h"

#include "core/tensor.h"
#include "mpfa/check.h"

namespace mpfa::internal {
namespace {

void check_sequence(const CacheTensors& cache, const Tensor<int32_t, 2>& block_table,
                    int64_t sequence, int64_t length) {
  const int64_t max_pages = block_table.size(1);
  // Not max_pages * page_size, which a table with a stride of 0 could make overflow.
  const int64_t used = (length + cache.page_size - 1) / cache.page_size;
  MPFA_CHECK(length >= 0 && used <= max_pages, "seq_lens[", sequence, "] = ", length,
             ": must be 0 to ", max_pages, " pages of ", cache.page_size, " tokens");
  for (int64_t i = 0; i < used; ++i) {
    const int32_t page = *block_table.at(sequence, i);
    MPFA_CHECK(page >= 0 && page < cache.num_pages, "block_table[", sequence, ", ", i, "] = ", page,
               ": must be 0 to ", cache.num_pages - 1);
  }
}

}  // namespace

void check_page_tables(const CacheTensors& cache, const DLTensor* block_table,
                       const DLTensor* seq_lens) {
  MPFA_CHECK((block_table == nullptr) == (seq_lens == nullptr),
             block_table == nullptr ? "block_table" : "seq_lens",
             " is missing: it is required with ",
             block_table == nullptr ? "seq_lens" : "block_table");
  MPFA_CHECK(!cache.stats_index || cache.stats_index.size(0) >= 1,
             "stats_index is empty: needs at least one sequence");
  if (block_table == nullptr) {
    if (cache.stats_index) check_stats_index(cache, cache.stats_index.size(0));
    return;
  }
  const auto table = Tensor<int32_t, 2>::from(*block_table, "block_table", false);
  const auto lengths = Tensor<int32_t, 1>::from(*seq_lens, "seq_lens", false);
  MPFA_CHECK(!table.empty(), "block_table has shape ", shape_string(*block_table),
             ": needs at least one sequence and one page");
  check_size(*seq_lens, "seq_lens", 0, table.size(0), "as block_table has");
  MPFA_CHECK(!cache.stats_index || cache.stats_index.size(0) == table.size(0), "stats_index has ",
             cache.stats_index.size(0), " elements: must have one per sequence, ", table.size(0));
  check_stats_index(cache, table.size(0));
  for (int64_t i = 0; i < table.size(0); ++i) check_sequence(cache, table, i, *lengths.at(i));
}

}  // namespace mpfa::internal
