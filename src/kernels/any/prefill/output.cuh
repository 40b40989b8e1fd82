// Rows of results, a piece of 16 bytes at a time.
#pragma once

#include "kernels/any/prefill/query.cuh"
#include "kernels/any/steps.cuh"

namespace mpfa::kernels {

// Eight elements, in one piece where the address allows it.
__device__ __forceinline__ void store_piece(std::byte* to, bool is_aligned, const uint4& words) {
  if (is_aligned) {
    *reinterpret_cast<uint4*>(to) = words;
    return;
  }
  const uint32_t all[4] = {words.x, words.y, words.z, words.w};
  auto* elements = reinterpret_cast<uint16_t*>(to);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    elements[i] = static_cast<uint16_t>(all[i / 2] >> (16 * (i % 2)));
  }
}

// Eight elements of a row, if there is such a row; `chunk` counts pieces of eight.
__device__ __forceinline__ void store_chunk(const PrefillParams& params,
                                            const DecodeSegment& segment, int row, int chunk,
                                            const uint4& words) {
  const DecodeParams& p = params.attention;
  const QueryRow query = query_row(p, segment, row);
  if (!query.is_valid) return;
  std::byte* const to = p.out + 2 * (steps(segment.q_begin + query.position, p.out_row_stride) +
                                     steps(query.head, p.out_head_stride) + 8 * chunk);
  store_piece(to, params.out_has_pieces != 0, words);
}

}  // namespace mpfa::kernels
