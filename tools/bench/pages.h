// Where a benchmark's sequences lie in a paged cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace mpfa::tools {

// Page numbers in random order, the same one every time.
inline std::vector<int32_t> shuffled_pages(int64_t num_pages) {
  std::vector<int32_t> pages(static_cast<size_t>(num_pages));
  std::iota(pages.begin(), pages.end(), 0);
  std::mt19937_64 random(2);
  for (size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[random() % i]);
  return pages;
}

}  // namespace mpfa::tools
