#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mpfa::internal {

// The text in single quotes, fit for one line of an error message whatever bytes it has: control
// characters and bytes that are not UTF-8 appear as \xNN, and a long text is cut at a character
// boundary and closed by "...". Names in a file are untrusted, and a terminal obeys what it is
// sent.
std::string quote(std::string_view text, std::size_t max_bytes = 80);

// The same for a path: cut only past the longest path that the system allows.
std::string quote_path(std::string_view path);

}  // namespace mpfa::internal
