#include "core/stats_index.h"

namespace mpfa::internal {

void check_stats_index(const Tensor<int32_t, 1>& stats_index, int64_t batch_size,
                       int64_t num_stats) {
  if (!stats_index) return;
  MPFA_CHECK(stats_index.size(0) >= batch_size, "stats_index has ", stats_index.size(0),
             " elements: must have one per sequence, ", batch_size);
  if (num_stats == 0) return;
  for (int64_t i = 0; i < batch_size; ++i) {
    const int32_t row = *stats_index.at(i);
    MPFA_CHECK(row >= 0 && row < num_stats, "stats_index[", i, "] = ", row, ": must be 0 to ",
               num_stats - 1);
  }
}

void check_one_sequence(const Tensor<int32_t, 1>& stats_index, int64_t num_stats,
                        int64_t num_tokens, std::string_view cu_seqlens) {
  if (!stats_index || num_stats <= 1 || num_tokens == 0) return;
  MPFA_CHECK(stats_index.size(0) == 1, cu_seqlens, " is missing: it is required to tell which of ",
             stats_index.size(0), " sequences (stats_index), and so which of ", num_stats,
             " rows of statistics, a token belongs to");
}

}  // namespace mpfa::internal
