// Which sequence a token belongs to, and with it its row of statistics.
#pragma once

#include "kernels/any/append/params.h"

namespace mpfa::kernels {

// The sequence of a token, or -1. `guess` costs one round of reads if it is right.
__device__ __forceinline__ int find_sequence(const SequenceTable& table, int64_t token, int guess) {
  if (table.cu_seqlens == nullptr) return 0;
  if (table.batch_size == 0) return -1;
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

// Rows of statistics of tokens in ascending order, most of which belong to the sequence of the
// token before.
class SequenceCursor {
 public:
  // Three reads that do not wait for one another. `sequence` is a guess of the token's.
  __device__ __forceinline__ void move_to(const SequenceTable& table, int sequence, int token) {
    end_ = INT32_MAX;
    if (table.cu_seqlens != nullptr) {
      const int begin = __ldg(table.cu_seqlens + sequence * table.cu_seqlens_stride);
      end_ = __ldg(table.cu_seqlens + (sequence + 1) * table.cu_seqlens_stride);
      if (token < begin) end_ = 0;
    }
    row_ = stats_row_of(table, sequence);
  }

  // -1 if there is none.
  __device__ __forceinline__ int row_of(const SequenceTable& table, int token) {
    if (token >= end_) {
      const int sequence = find_sequence(table, token, 0);
      if (sequence < 0) return -1;
      move_to(table, sequence, token);
    }
    return row_;
  }

 private:
  int end_ = 0;  // of the sequence's tokens; 0 where that is not known
  int row_ = -1;
};

// The usual case of a decode step is guessed: a token for each sequence.
__device__ __forceinline__ SequenceCursor guess_sequence(const SequenceTable& table, int token) {
  SequenceCursor cursor;
  if (table.batch_size > 0) cursor.move_to(table, min(token, table.batch_size - 1), token);
  return cursor;
}

}  // namespace mpfa::kernels
