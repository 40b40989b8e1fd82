#include "core/shapes.h"

namespace mpfa::internal {

std::string alternatives(std::span<const int64_t> values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i + 1 == values.size() ? " or " : ", ";
    text += std::to_string(values[i]);
  }
  return text;
}

}  // namespace mpfa::internal
