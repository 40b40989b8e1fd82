// Repeated measurements of one time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mpfa::tools {

// Seconds of each repetition, in order; at least one.
struct Samples {
  std::vector<double> seconds;

  double min() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double max() const { return *std::max_element(seconds.begin(), seconds.end()); }
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
};

}  // namespace mpfa::tools
