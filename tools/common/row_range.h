// Ranges of rows, as the command line spells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpfa::tools {

// BEGIN:END, both optional and counted from the end where negative, as in Python: ":448" are the
// first 448 rows, "-64:" the last 64.
struct RowSlice {
  std::optional<int64_t> begin;
  std::optional<int64_t> end;

  struct Bounds {
    int64_t begin;
    int64_t end;
    friend bool operator==(const Bounds&, const Bounds&) = default;
  };
  // The rows of `total` that are meant. Throws InvalidArgument unless 0 <= begin < end <= total.
  Bounds resolve(int64_t total) const;
  std::string str() const;

  friend bool operator==(const RowSlice&, const RowSlice&) = default;
};

// Throws UsageError quoting the text if it is not a range.
RowSlice parse_row_slice(std::string_view text);

}  // namespace mpfa::tools
