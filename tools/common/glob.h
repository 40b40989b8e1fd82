// Names chosen by patterns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mpfa::tools {

// Whether the whole name fits the pattern, in which * stands for any text, also none.
bool glob_matches(std::string_view pattern, std::string_view name);

// The names that fit any of the patterns, in the order of `names`; all of them without a pattern.
// Throws InvalidArgument if a pattern fits none: "no <what> fits 'x*': there are 'a', 'b'".
std::vector<std::string> choose_names(const std::vector<std::string>& names,
                                      const std::vector<std::string>& patterns,
                                      std::string_view what);

// Splits "a,b,,c" into a, b, c, and appends.
void split_commas(std::string_view text, std::vector<std::string>& out);

}  // namespace mpfa::tools
