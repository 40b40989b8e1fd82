// The sizes that a cache and the kernels over it support: the one place that checks, their messages
// and tools read.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>

namespace mpfa::internal {

// Ascending, so that back() is the largest: what a kernel's fixed arrays must hold. Powers of two,
// because dot products are summed by halves (docs/spec.md, section 2): dot_by_halves() would drop
// terms of any other. From 64 on, because the CPU kernels take 64 dims at a time: unpack_k_lanes(),
// unpack_v_pair(), v_dim_at() and find_nan_codes() (cpu/dequant-inl.h), accumulate_rows()
// (cpu/dot-inl.h), and the cache writer, whose kBatchRows rows are whole vectors of blocks
// (cpu/append_simd.cc).
inline constexpr std::array<int64_t, 2> kHeadDims = {64, 128};
static_assert(std::all_of(kHeadDims.begin(), kHeadDims.end(), [](int64_t d) {
  return d >= 64 && std::has_single_bit(static_cast<uint64_t>(d));
}));
inline constexpr std::array<int64_t, 4> kPageSizes = {16, 32, 64, 128};
inline constexpr std::array<int64_t, 3> kResidualRanks = {4, 8, 16};  // of a cache with k_residual

constexpr bool is_one_of(int64_t value, std::span<const int64_t> values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}
constexpr bool is_head_dim(int64_t d) { return is_one_of(d, kHeadDims); }
constexpr bool is_page_size(int64_t tokens) { return is_one_of(tokens, kPageSizes); }
constexpr bool is_residual_rank(int64_t r) { return is_one_of(r, kResidualRanks); }

// For messages: "16, 32, 64 or 128".
std::string alternatives(std::span<const int64_t> values);

}  // namespace mpfa::internal
