#include "common/errors.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace mpfa::tools {
namespace {

// " (name.cc:12)", .cu and .h likewise.
bool is_location(std::string_view text) {
  const size_t dot = text.find('.');
  const size_t colon = text.find(':');
  if (dot == std::string_view::npos || colon == std::string_view::npos || dot > colon) return false;
  const std::string_view suffix = text.substr(dot, colon - dot);
  const std::string_view line = text.substr(colon + 1);
  return (suffix == ".cc" || suffix == ".cu" || suffix == ".h") && !line.empty() &&
         text.find(' ') == std::string_view::npos &&
         std::all_of(line.begin(), line.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string without_source_location(const std::string& message) {
  std::string_view rest = message;
  while (rest.ends_with(')')) {
    const size_t open = rest.rfind(" (");
    if (open == std::string_view::npos) break;
    if (!is_location(rest.substr(open + 2, rest.size() - open - 3))) break;
    rest = rest.substr(0, open);
  }
  return std::string(rest);
}

}  // namespace mpfa::tools
