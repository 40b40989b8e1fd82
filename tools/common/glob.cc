#include "common/glob.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::tools {

// Greedy with one point of return: the last * takes one character more whenever the rest does not
// fit. Linear in pattern times name, without recursion, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t star_end = 0;  // name[.. star_end) is taken up to and including the last *
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<std::string> choose_names(const std::vector<std::string>& names,
                                      const std::vector<std::string>& patterns,
                                      std::string_view what) {
  if (patterns.empty()) return names;
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const std::string& name) { return glob_matches(pattern, name); };
    if (std::none_of(names.begin(), names.end(), fits)) {
      std::string list;
      for (const std::string& name : names) {
        list += (list.empty() ? "" : ", ") + internal::quote(name);
      }
      throw InvalidArgument(fmt::format("no {} fits {}: there are {}", what,
                                        internal::quote(pattern), list.empty() ? "none" : list));
    }
  }
  std::vector<std::string> chosen;
  for (const std::string& name : names) {
    const auto fits = [&](const std::string& pattern) { return glob_matches(pattern, name); };
    if (std::any_of(patterns.begin(), patterns.end(), fits)) chosen.push_back(name);
  }
  return chosen;
}

void split_commas(std::string_view text, std::vector<std::string>& out) {
  while (true) {
    const size_t comma = text.find(',');
    if (comma != 0 && !text.empty()) out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace mpfa::tools
