#include "bench/prefill_case.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/errors.h"

namespace mpfa::tools {
namespace {

PrefillCase case_of(const std::string& shape, int64_t seqlen_q = 0) {
  return equal_lengths(parse_bench_shapes(shape)[0], seqlen_q);
}

TEST(PrefillCase, FlopsCountVisiblePairs) {
  PrefillCase prefill = case_of("2x8:2x64@1000");
  EXPECT_EQ(flops(prefill), 2 * 2 * 1000.0 * 1000 * 64 * 8);  // 2 S^2 d Hq a sequence
  prefill.is_causal = false;
  EXPECT_EQ(flops(prefill), 2 * 4 * 1000.0 * 1000 * 64 * 8);
  // Rows that come last see nearly all keys.
  EXPECT_EQ(flops(case_of("1x8:2x64@1000", 100)), 4 * (100.0 * 950) * 64 * 8);
}

TEST(PrefillCase, FlopsOfLengthsThatDiffer) {
  PrefillCase prefill = case_of("2x1:1x64@100");
  prefill.seqlens_q = {10, 0};
  prefill.seqlens_k = {100, 50};
  EXPECT_EQ(flops(prefill), 4 * (10.0 * 95) * 64);
}

TEST(PrefillCase, LabelsSayWhatIsMeasured) {
  EXPECT_EQ(label(case_of("1x32:8x128@4K")), "1x32:8x128@4K");
  EXPECT_EQ(label(case_of("2x32:8x128@64K", 8192)), "2x32:8x128@8K of 64K");
  PrefillCase mixed = case_of("2x32:8x128@1000");
  mixed.seqlens_q = {1000, 33};
  mixed.seqlens_k = mixed.seqlens_q;
  mixed.is_causal = false;
  EXPECT_EQ(label(mixed), "2x32:8x128@33 to 1000, full");
  mixed.precision = PrefillPrecision::kFp8;
  EXPECT_EQ(describe(mixed), "page 64, residual 8, first key, fp8");
  mixed.options.residual_rank = 0;
  mixed.options.first_key = false;
  mixed.options.delta_s = true;
  EXPECT_EQ(describe(mixed), "page 64, delta_s, fp8");
}

TEST(PrefillCase, CachesHoldEverySequence) {
  PrefillCase mixed = case_of("2x8:2x128@1000");
  mixed.seqlens_k = {1000, 33};
  EXPECT_EQ(cache_config(mixed).num_pages, 16 + 1);
}

TEST(PrefillCase, RowsBeyondTheTokensAreAnError) {
  EXPECT_THROW(case_of("1x8:2x64@100", 101), UsageError);
  EXPECT_NO_THROW(case_of("1x8:2x64@100", 100));
}

TEST(PrefillCase, PrecisionsHaveNames) {
  std::set<std::string> names;
  for (const std::string& name : precision_names()) {
    EXPECT_EQ(precision_name(precision_from_name(name)), name);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 4u);
  EXPECT_THROW(precision_from_name("fp4"), UsageError);
}

TEST(PrefillCase, SuitesAreWhole) {
  for (const std::string& name : prefill_suites()) {
    const auto cases = prefill_suite(name, "fp16", PrefillPrecision::kFp16);
    EXPECT_GE(cases.size(), 8u);
    for (const PrefillCase& prefill : cases) {
      EXPECT_EQ(prefill.options.dtype, "fp16");
      EXPECT_EQ(prefill.precision, PrefillPrecision::kFp16);
      const auto batch_size = static_cast<size_t>(prefill.shape.batch_size);
      ASSERT_EQ(prefill.seqlens_q.size(), batch_size);
      ASSERT_EQ(prefill.seqlens_k.size(), batch_size);
      for (size_t b = 0; b < batch_size; ++b) {
        EXPECT_LE(prefill.seqlens_q[b], prefill.seqlens_k[b]);
        EXPECT_LE(prefill.seqlens_k[b], prefill.shape.length);
      }
    }
  }
  EXPECT_THROW(prefill_suite("all", "bf16", PrefillPrecision::kAuto), UsageError);
}

}  // namespace
}  // namespace mpfa::tools
