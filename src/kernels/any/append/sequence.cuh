// Which sequence a token belongs to, and with it its row of statistics.
#pragma once

#include "kernels/any/append/params.h"

namespace mpfa::kernels {

// The sequence of a token, or -1. `guess` costs one round of reads if it is right.
__device__ __forceinline__ int find_sequence(const SequenceTable& table, int64_t token, int guess) {
  if (table.cu_seqlens == nullptr) return 0;
  const auto first = [&](int i) { return __ldg(table.cu_seqlens + i * table.cu_seqlens_stride); };
  if (first(guess) <= token && token < first(guess + 1)) return guess;
  if (token < first(0) || token >= first(table.batch_size)) return -1;
  int low = 0;  // first(low) <= token < first(high)
  int high = table.batch_size;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (first(middle) <= token ? low : high) = middle;
  }
  return low;
}

// The row of statistics of a sequence, or -1 where there is no such row.
__device__ __forceinline__ int stats_row_of(const SequenceTable& table, int sequence) {
  if (table.stats_index == nullptr) return 0;
  const int row = __ldg(table.stats_index + sequence * table.stats_index_stride);
  return row >= 0 && row < table.num_stats ? row : -1;
}

}  // namespace mpfa::kernels
