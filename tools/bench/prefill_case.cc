#include "bench/prefill_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/errors.h"
#include "core/ceil_div.h"
#include "io/quote.h"

namespace mpfa::tools {
namespace {

constexpr int32_t kK = 1024;

struct PrecisionName {
  PrefillPrecision precision;
  const char* name;
};
constexpr PrecisionName kPrecisionNames[] = {{PrefillPrecision::kAuto, "auto"},
                                             {PrefillPrecision::kFp16, "fp16"},
                                             {PrefillPrecision::kFp8, "fp8"},
                                             {PrefillPrecision::kFp8Fp16Scores, "fp8-fp16-scores"}};

std::string tokens_text(int64_t tokens) {
  return tokens % kK == 0 ? fmt::format("{}K", tokens / kK) : std::to_string(tokens);
}

std::vector<PrefillCase> cases_of(std::string_view shapes, int64_t seqlen_q = 0) {
  std::vector<PrefillCase> cases;
  for (const BenchShape& shape : parse_bench_shapes(shapes)) {
    cases.push_back(equal_lengths(shape, seqlen_q));
  }
  return cases;
}

void add(std::vector<PrefillCase>& cases, const std::vector<PrefillCase>& more) {
  cases.insert(cases.end(), more.begin(), more.end());
}

std::vector<PrefillCase> without_compensation(std::vector<PrefillCase> cases) {
  for (PrefillCase& prefill : cases) {
    prefill.options.residual_rank = 0;
    prefill.options.first_key = false;
  }
  return cases;
}

std::vector<PrefillCase> without_mask(std::vector<PrefillCase> cases) {
  for (PrefillCase& prefill : cases) prefill.is_causal = false;
  return cases;
}

// A batch as serving engines have it.
PrefillCase mixed_lengths() {
  PrefillCase prefill;
  prefill.seqlens_k = {16 * kK, 11 * kK, 8 * kK, 6 * kK, 5000, 4 * kK, 3 * kK, 2500,
                       2 * kK,  1536,    1 * kK, 777,    512,  300,    128,    33};
  prefill.seqlens_q = prefill.seqlens_k;
  const auto batch_size = static_cast<int64_t>(prefill.seqlens_k.size());
  prefill.shape = {batch_size, 32, 8, 128, prefill.seqlens_k[0]};
  return prefill;
}

std::vector<PrefillCase> goals() {
  const std::vector<PrefillCase> cases =
      cases_of("1x32:8x128@4K,1x32:8x128@16K,1x32:8x128@64K,1x32:8x128@128K");
  std::vector<PrefillCase> all = cases;
  add(all, without_compensation(cases));
  return all;
}

std::vector<PrefillCase> wide() {
  std::vector<PrefillCase> cases = cases_of("1x32:8x128@8K,1x32:8x128@32K,8x32:8x128@2K");
  add(cases, cases_of("1x40:8x128@4K,1x40:8x128@16K,1x40:8x128@64K"));
  add(cases, cases_of("1x32:8x64@4K,1x32:8x64@16K,1x32:8x64@64K"));
  add(cases, cases_of("1x32:8x128@64K,1x40:8x128@64K", int64_t{8} * kK));
  cases.push_back(mixed_lengths());
  add(cases, without_mask(cases_of("1x32:8x128@4K,1x32:8x128@16K,1x32:8x128@64K")));
  add(cases, without_mask({mixed_lengths()}));
  return cases;
}

struct Suite {
  const char* name;
  std::vector<PrefillCase> (*cases)();
};
constexpr Suite kSuites[] = {{"goals", goals}, {"wide", wide}};

}  // namespace

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const PrecisionName& entry : kPrecisionNames) names.emplace_back(entry.name);
  return names;
}

std::string precision_name(PrefillPrecision precision) {
  for (const PrecisionName& entry : kPrecisionNames) {
    if (entry.precision == precision) return entry.name;
  }
  throw Error("a precision without a name");
}

PrefillPrecision precision_from_name(const std::string& name) {
  for (const PrecisionName& entry : kPrecisionNames) {
    if (name == entry.name) return entry.precision;
  }
  throw UsageError(fmt::format("precision {}: must be one of {}", internal::quote(name),
                               fmt::join(precision_names(), ", ")));
}

PrefillCase equal_lengths(const BenchShape& shape, int64_t seqlen_q) {
  if (seqlen_q > shape.length) {
    throw UsageError(fmt::format("{} query rows of shape {}: must be at most its tokens, {}",
                                 seqlen_q, shape.str(), shape.length));
  }
  PrefillCase prefill;
  prefill.shape = shape;
  const auto batch_size = static_cast<size_t>(shape.batch_size);
  prefill.seqlens_k.assign(batch_size, static_cast<int32_t>(shape.length));
  prefill.seqlens_q.assign(batch_size,
                           static_cast<int32_t>(seqlen_q == 0 ? shape.length : seqlen_q));
  return prefill;
}

KvCacheConfig cache_config(const PrefillCase& prefill) {
  KvCacheConfig config = cache_config(prefill.shape, prefill.options);
  config.num_pages = 0;
  for (const int32_t length : prefill.seqlens_k) {
    config.num_pages += internal::ceil_div(length, prefill.options.page_size);
  }
  config.batch_size = 0;
  config.max_pages_per_seq = 0;
  return config;
}

double flops(const PrefillCase& prefill) {
  double pairs = 0.0;
  for (size_t b = 0; b < prefill.seqlens_q.size(); ++b) {
    const double rows = prefill.seqlens_q[b];
    pairs += rows * (prefill.seqlens_k[b] - (prefill.is_causal ? rows / 2 : 0.0));
  }
  const auto width = static_cast<double>(prefill.shape.head_dim * prefill.shape.num_q_heads);
  return 4.0 * pairs * width;
}

std::string label(const PrefillCase& prefill) {
  const BenchShape& shape = prefill.shape;
  const auto [least, most] =
      std::minmax_element(prefill.seqlens_q.begin(), prefill.seqlens_q.end());
  std::string lengths = tokens_text(*most);
  if (*least != *most) {
    lengths = fmt::format("{} to {}", tokens_text(*least), lengths);
  } else if (prefill.seqlens_k != prefill.seqlens_q) {
    lengths = fmt::format("{} of {}", lengths, tokens_text(shape.length));
  }
  return fmt::format("{}x{}:{}x{}@{}{}", shape.batch_size, shape.num_q_heads, shape.num_kv_heads,
                     shape.head_dim, lengths, prefill.is_causal ? "" : ", full");
}

std::string describe(const PrefillCase& prefill) {
  std::string text = fmt::format("page {}", prefill.options.page_size);
  if (prefill.options.residual_rank > 0) {
    text += fmt::format(", residual {}", prefill.options.residual_rank);
  }
  if (prefill.options.first_key) text += ", first key";
  if (prefill.options.delta_s) text += ", delta_s";
  return text + ", " + precision_name(prefill.precision);
}

std::vector<std::string> prefill_suites() {
  std::vector<std::string> names;
  for (const Suite& suite : kSuites) names.emplace_back(suite.name);
  return names;
}

std::vector<PrefillCase> prefill_suite(const std::string& name, const std::string& dtype,
                                       PrefillPrecision precision) {
  for (const Suite& suite : kSuites) {
    if (name != suite.name) continue;
    std::vector<PrefillCase> cases = suite.cases();
    for (PrefillCase& prefill : cases) {
      prefill.options.dtype = dtype;
      prefill.precision = precision;
    }
    return cases;
  }
  throw UsageError(fmt::format("suite {}: must be one of {}", internal::quote(name),
                               fmt::join(prefill_suites(), ", ")));
}

}  // namespace mpfa::tools
