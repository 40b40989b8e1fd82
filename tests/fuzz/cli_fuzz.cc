// libFuzzer target: the parsers of the command line. Any text is either rejected by UsageError, or
// parsed into something that is valid and prints as text that parses to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/bench_shape.h"
#include "common/common_options.h"
#include "common/errors.h"
#include "common/glob.h"
#include "common/row_range.h"
#include "common/table.h"
#include "core/shapes.h"

namespace {

using namespace mpfa::tools;  // NOLINT(google-build-using-namespace): a program of its own

void require(bool condition) {
  if (!condition) std::abort();
}

void fuzz_shapes(std::string_view text) {
  std::vector<BenchShape> shapes;
  try {
    shapes = parse_bench_shapes(text);
  } catch (const UsageError&) {
    return;
  }
  std::string printed;
  for (const BenchShape& shape : shapes) {
    require(shape.batch_size >= 1 && shape.num_kv_heads >= 1 && shape.length >= 1);
    require(shape.num_q_heads % shape.num_kv_heads == 0);
    require(mpfa::internal::is_head_dim(shape.head_dim));
    printed += (printed.empty() ? "" : ",") + shape.str();
  }
  require(parse_bench_shapes(printed) == shapes);
}

void fuzz_rows(std::string_view text, int64_t total) {
  RowSlice slice;
  try {
    slice = parse_row_slice(text);
  } catch (const UsageError&) {
    return;
  }
  require(parse_row_slice(slice.str()) == slice);
  try {
    const RowSlice::Bounds bounds = slice.resolve(total);
    require(0 <= bounds.begin && bounds.begin < bounds.end && bounds.end <= total);
  } catch (const mpfa::InvalidArgument&) {
    return;
  }
}

void fuzz_globs(std::string_view text) {
  std::vector<std::string> parts;
  split_commas(text, parts);
  for (const std::string& part : parts) {
    require(!part.empty() && part.find(',') == std::string::npos);
    require(glob_matches(part, part));  // a * also fits itself
    require(glob_matches("*", part) && glob_matches(part + "*", part + "tail"));
    try {
      const auto chosen = choose_names({"layer00", "layer15"}, {part}, "layer");
      require(!chosen.empty());
    } catch (const mpfa::InvalidArgument&) {
      continue;
    }
  }
}

// Accepted numbers are within what was allowed, so that std::stoll and its like cannot fail later.
void fuzz_numbers(const std::string& text) {
  std::string value = text;
  if (whole_number(1, 1000, 5)(value).empty()) {
    const int64_t number = std::stoll(text);
    require(number >= 1 && number <= 1000 && number % 5 == 0);
  }
  if (positive_number()(value).empty()) require(std::strtof(text.c_str(), nullptr) > 0.0f);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz_shapes(text);
  fuzz_rows(text, data[0]);
  fuzz_globs(text);
  fuzz_numbers(text);
  html_escape(text);
  return 0;
}
