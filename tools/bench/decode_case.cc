#include "bench/decode_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string_view>

#include "common/errors.h"
#include "core/ceil_div.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

constexpr int64_t kUnevenRatio = 128;

struct LengthsName {
  Lengths lengths;
  const char* name;
};
constexpr LengthsName kLengthsNames[] = {
    {Lengths::kEqual, "equal"}, {Lengths::kUniform, "uniform"}, {Lengths::kUneven, "uneven"}};

// Tokens in pages, whole ones.
int64_t total_pages(const DecodeCase& decode) {
  int64_t pages = 0;
  for (const int32_t length : seqlens_k(decode)) {
    pages += internal::ceil_div(length, decode.options.page_size);
  }
  return pages;
}

DecodeCase plain_case(const std::string& dtype) {
  DecodeCase decode;
  decode.options.residual_rank = 0;
  decode.options.first_key = false;
  decode.options.dtype = dtype;
  return decode;
}

DecodeCase with_compensation(DecodeCase decode) {
  const WorkloadOptions defaults;
  decode.options.residual_rank = defaults.residual_rank;
  decode.options.first_key = defaults.first_key;
  return decode;
}

void add_shapes(const DecodeCase& like, std::string_view shapes, std::vector<DecodeCase>& cases) {
  for (const BenchShape& shape : parse_bench_shapes(shapes)) {
    cases.push_back(like);
    cases.back().shape = shape;
  }
}

std::vector<DecodeCase> goals(const std::string& dtype) {
  const DecodeCase plain = plain_case(dtype);
  constexpr std::string_view kShapes =
      "1x32:8x128@4K,1x32:8x128@16K,1x32:8x128@32K,1x32:8x128@64K,1x32:8x128@128K,"
      "8x32:8x128@4K,8x32:8x128@16K,8x32:8x128@64K,64x32:8x128@4K,64x32:8x128@8K";
  constexpr std::string_view kGroupsOfFive =
      "1x40:8x128@4K,1x40:8x128@16K,1x40:8x128@32K,1x40:8x128@64K,1x40:8x128@128K,"
      "8x40:8x128@4K,8x40:8x128@16K,8x40:8x128@64K,64x40:8x128@4K,64x40:8x128@8K";
  std::vector<DecodeCase> cases;
  add_shapes(plain, kShapes, cases);
  add_shapes(plain, kGroupsOfFive, cases);
  add_shapes(with_compensation(plain), kShapes, cases);
  return cases;
}

std::vector<DecodeCase> wide(const std::string& dtype) {
  const DecodeCase plain = plain_case(dtype);
  constexpr std::string_view kShapes = "1x32:8x128@32K,8x32:8x128@16K,64x32:8x128@4K";
  std::vector<DecodeCase> cases;
  add_shapes(plain, kShapes, cases);
  add_shapes(plain, "1x32:8x64@32K,8x32:8x64@16K,64x32:8x64@4K", cases);
  for (const int heads : {8, 40, 64}) {  // groups of 1, 5 and 8
    add_shapes(plain, fmt::format("1x{0}:8x128@32K,8x{0}:8x128@16K,64x{0}:8x128@4K", heads), cases);
  }
  add_shapes(with_compensation(plain), kShapes, cases);
  DecodeCase small_pages = plain;
  small_pages.options.page_size = 16;
  add_shapes(small_pages, kShapes, cases);
  DecodeCase speculative = plain;
  speculative.seqlen_q = 4;
  add_shapes(speculative, kShapes, cases);
  DecodeCase uniform = plain;
  uniform.lengths = Lengths::kUniform;
  add_shapes(uniform, "8x32:8x128@64K,64x32:8x128@64K", cases);
  DecodeCase uneven = plain;
  uneven.lengths = Lengths::kUneven;
  add_shapes(uneven, "64x32:8x128@128K", cases);
  return cases;
}

struct Suite {
  const char* name;
  std::vector<DecodeCase> (*cases)(const std::string& dtype);
};
constexpr Suite kSuites[] = {{"goals", goals}, {"wide", wide}};

}  // namespace

std::string lengths_name(Lengths lengths) {
  const auto* const found =
      std::find_if(std::begin(kLengthsNames), std::end(kLengthsNames),
                   [&](const LengthsName& entry) { return entry.lengths == lengths; });
  return found->name;
}

Lengths lengths_from_name(const std::string& name) {
  for (const LengthsName& entry : kLengthsNames) {
    if (name == entry.name) return entry.lengths;
  }
  throw UsageError(
      fmt::format("lengths {}: must be equal, uniform or uneven", internal::quote(name)));
}

std::vector<int32_t> seqlens_k(const DecodeCase& decode) {
  const auto longest = static_cast<int32_t>(decode.shape.length);
  std::vector<int32_t> lengths(static_cast<size_t>(decode.shape.batch_size), longest);
  if (decode.lengths == Lengths::kUneven) {
    const auto others = static_cast<int32_t>(std::max<int64_t>(1, longest / kUnevenRatio));
    std::fill(lengths.begin() + 1, lengths.end(), others);
  } else if (decode.lengths == Lengths::kUniform) {
    // Not std::uniform_int_distribution, whose numbers differ between standard libraries.
    std::mt19937 random(1);
    for (int32_t& length : lengths) {
      length = 1 + static_cast<int32_t>(random() % static_cast<uint32_t>(longest));
    }
  }
  // Fewer keys than query rows would leave rows without any.
  for (int32_t& length : lengths) {
    length = std::max(length, static_cast<int32_t>(decode.seqlen_q));
  }
  return lengths;
}

KvCacheConfig cache_config(const DecodeCase& decode) {
  KvCacheConfig config = cache_config(decode.shape, decode.options);
  config.num_pages = total_pages(decode);
  config.batch_size = 0;
  config.max_pages_per_seq = 0;
  return config;
}

double cache_bytes(const DecodeCase& decode) {
  const std::vector<int32_t> lengths = seqlens_k(decode);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return bytes_per_token_and_kv_head(cache_config(decode)) *
         static_cast<double>(tokens * decode.shape.num_kv_heads);
}

std::string describe(const DecodeCase& decode) {
  std::string text = fmt::format("page {}", decode.options.page_size);
  if (decode.options.residual_rank > 0) {
    text += fmt::format(", residual {}", decode.options.residual_rank);
  }
  if (decode.options.first_key) text += ", first key";
  if (decode.options.delta_s) text += ", delta_s";
  if (decode.seqlen_q > 1) text += fmt::format(", {} query rows", decode.seqlen_q);
  if (decode.lengths == Lengths::kUniform) text += ", lengths drawn from 1 to the shape's";
  if (decode.lengths == Lengths::kUneven) text += ", one sequence as long, the others 1/128";
  if (decode.options.kv_split_size > 0) {
    text += fmt::format(", split {}", decode.options.kv_split_size);
  }
  return text;
}

std::vector<std::string> decode_suites() {
  std::vector<std::string> names;
  for (const Suite& suite : kSuites) names.emplace_back(suite.name);
  return names;
}

std::vector<DecodeCase> decode_suite(const std::string& name, const std::string& dtype) {
  for (const Suite& suite : kSuites) {
    if (name == suite.name) return suite.cases(dtype);
  }
  throw UsageError(fmt::format("suite {}: must be one of {}", internal::quote(name),
                               fmt::join(decode_suites(), ", ")));
}

}  // namespace mpfa::tools
