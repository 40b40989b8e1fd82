// Repeated measurements of one time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mpfa::tools {

// Of one or more values.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Seconds of each repetition, in order; at least one.
struct Samples {
  std::vector<double> seconds;

  double min() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double max() const { return *std::max_element(seconds.begin(), seconds.end()); }
  double median() const { return tools::median(seconds); }
};

}  // namespace mpfa::tools
