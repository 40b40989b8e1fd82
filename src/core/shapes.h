// The sizes that a cache and the kernels over it support: the one place that checks, their messages
// and tools read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace mpfa::internal {

// Ascending, so that back() is the largest: what a kernel's fixed arrays must hold.
inline constexpr std::array<int64_t, 2> kHeadDims = {64, 128};
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
