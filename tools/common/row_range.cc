#include "common/row_range.h"

#include <fmt/format.h>

#include <charconv>

#include "common/errors.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

std::optional<int64_t> parse_bound(std::string_view bound, std::string_view whole) {
  if (bound.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(bound.data(), bound.data() + bound.size(), value);
  if (error != std::errc() || end != bound.data() + bound.size()) {
    throw UsageError(fmt::format("rows {}: {} is not a 64-bit whole number", internal::quote(whole),
                                 internal::quote(bound)));
  }
  return value;
}

}  // namespace

RowSlice::Bounds RowSlice::resolve(int64_t total) const {
  const auto from_end = [total](int64_t value) { return value < 0 ? value + total : value; };
  const Bounds bounds = {from_end(begin.value_or(0)), from_end(end.value_or(total))};
  if (bounds.begin < 0 || bounds.begin >= bounds.end || bounds.end > total) {
    throw InvalidArgument(
        fmt::format("rows '{}': must be at least one row of the {} there are", str(), total));
  }
  return bounds;
}

std::string RowSlice::str() const {
  return (begin ? fmt::format("{}", *begin) : "") + ":" + (end ? fmt::format("{}", *end) : "");
}

RowSlice parse_row_slice(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    throw UsageError(
        fmt::format("rows {}: must be BEGIN:END, such as ':448' or '-64:'", internal::quote(text)));
  }
  return {parse_bound(text.substr(0, colon), text), parse_bound(text.substr(colon + 1), text)};
}

}  // namespace mpfa::tools
