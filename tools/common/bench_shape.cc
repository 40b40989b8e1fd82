#include "common/bench_shape.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "common/errors.h"
#include "core/shapes.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kMaxBatchSize = int64_t{1} << 20;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxLength = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxElements = int64_t{1} << 40;

// Reads one shape from left to right.
class ShapeParser {
 public:
  explicit ShapeParser(std::string_view text) : text_(text), rest_(text) {}

  BenchShape parse() {
    BenchShape shape;
    shape.batch_size = number("batch size", kMaxBatchSize);
    expect('x', "the batch size");
    shape.num_q_heads = number("number of query heads", kMaxHeads);
    expect(':', "the query heads");
    shape.num_kv_heads = number("number of KV heads", kMaxHeads);
    expect('x', "the KV heads");
    shape.head_dim = number("head dimension", kMaxLength);
    expect('@', "the head dimension");
    shape.length = number("length", kMaxLength);
    if (!rest_.empty()) fail(fmt::format("{} after the length", internal::quote(rest_)));
    check(shape);
    return shape;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw UsageError(
        fmt::format("shape {}: {}; must be BATCHxHQ:HKVxD@LENGTH, such as 1x32:8x128@32K",
                    internal::quote(text_), problem));
  }

  int64_t number(std::string_view what, int64_t max) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error == std::errc::invalid_argument) fail(fmt::format("no {}", what));
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    int64_t unit = 1;
    if (!rest_.empty() && (rest_.front() == 'K' || rest_.front() == 'k')) {
      rest_.remove_prefix(1);
      unit = 1024;
    }
    if (error != std::errc() || value < 1 || value > max / unit) {
      fail(fmt::format("the {} must be 1 to {}", what, max));
    }
    return value * unit;
  }

  void expect(char separator, std::string_view after) {
    if (rest_.empty() || rest_.front() != separator) {
      fail(fmt::format("no '{}' after {}", separator, after));
    }
    rest_.remove_prefix(1);
  }

  void check(const BenchShape& shape) const {
    if (shape.num_q_heads % shape.num_kv_heads != 0) {
      fail(fmt::format("{} query heads are not a multiple of {} KV heads", shape.num_q_heads,
                       shape.num_kv_heads));
    }
    if (!internal::is_head_dim(shape.head_dim)) {
      fail(fmt::format("the head dimension is {}, but must be {}", shape.head_dim,
                       internal::alternatives(internal::kHeadDims)));
    }
    // Cannot overflow: 2^20 sequences, 2^10 heads and a head dimension are far below 2^63.
    const int64_t per_token = shape.batch_size * shape.num_q_heads * shape.head_dim;
    if (shape.length > kMaxElements / per_token) fail("it has more than 2^40 elements");
  }

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

std::string BenchShape::str() const {
  return fmt::format("{}x{}:{}x{}@{}", batch_size, num_q_heads, num_kv_heads, head_dim, length);
}

std::vector<BenchShape> parse_bench_shapes(std::string_view text) {
  std::vector<BenchShape> shapes;
  while (true) {
    const size_t comma = text.find(',');
    shapes.push_back(ShapeParser(text.substr(0, comma)).parse());
    if (comma == std::string_view::npos) return shapes;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace mpfa::tools
