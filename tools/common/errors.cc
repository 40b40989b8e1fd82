#include "common/errors.h"

#include <regex>

namespace mpfa::tools {

std::string without_source_location(const std::string& message) {
  static const std::regex kLocations(R"(( \([A-Za-z0-9_-]+\.(cc|cu|h):[0-9]+\))+$)");
  return std::regex_replace(message, kLocations, "");
}

}  // namespace mpfa::tools
