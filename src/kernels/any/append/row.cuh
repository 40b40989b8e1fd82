// A row of the cache (a token and KV head): where it goes, and stores of any alignment.
#pragma once

#include "kernels/any/append/params.h"
#include "kernels/any/append/sequence.cuh"

namespace mpfa::kernels {

// The row that a lane works on.
struct AppendRow {
  uint32_t page = 0;
  uint32_t token = 0;  // within the page
  uint32_t head = 0;
  uint32_t stats_row = 0;  // 0 where nothing is written
  bool is_written = false;
  bool is_error = false;
};

__device__ __forceinline__ AppendRow find_row(const AppendParams& p, int token, uint32_t head,
                                              int64_t slot, SequenceCursor& cursor) {
  AppendRow row;
  row.head = head;
  if (slot == -1) return row;
  const int stats_row = cursor.row_of(p.sequences, token);
  row.is_written = slot >= 0 && slot < p.num_pages << p.page_shift && stats_row >= 0;
  row.is_error = !row.is_written;
  if (row.is_written) row.stats_row = static_cast<uint32_t>(stats_row);
  row.page = static_cast<uint32_t>(slot >> p.page_shift);
  row.token = static_cast<uint32_t>(slot) & ((1u << p.page_shift) - 1);
  return row;
}

__device__ __forceinline__ std::byte* place(std::byte* tensor, const PagedStrides& strides,
                                            const AppendRow& row, uint32_t head) {
  return tensor + row.page * strides.page + head * strides.head + row.token * strides.token;
}

template <int kBytes>
__device__ __forceinline__ void store_bytes(std::byte* to, const uint32_t (&words)[kBytes / 4],
                                            bool vectors) {
  if (!vectors) {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) to[i] = static_cast<std::byte>(words[i / 4] >> (8 * (i % 4)));
  } else if constexpr (kBytes == 16) {
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  } else if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    *reinterpret_cast<uint32_t*>(to) = words[0];
  }
}

// Every NaN that the cache holds is the positive one.
__device__ __forceinline__ uint32_t bf16_stored(float x) {
  return isnan(x) ? 0x7FC0u : bf16_from_float(x).bits;
}

__device__ __forceinline__ void store_bf16(std::byte* to, float x) {
  const uint32_t bits = bf16_stored(x);
  to[0] = static_cast<std::byte>(bits);
  to[1] = static_cast<std::byte>(bits >> 8);
}

}  // namespace mpfa::kernels
