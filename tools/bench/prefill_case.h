// Prefills to measure on a GPU, and the lists of them that the command knows by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/workload.h"
#include "common/bench_shape.h"
#include "mpfa/attention.h"

namespace mpfa::tools {

// "auto", "fp16", "fp8", "fp8-fp16-scores", and back. Throws UsageError for any other name.
std::vector<std::string> precision_names();
std::string precision_name(PrefillPrecision precision);
PrefillPrecision precision_from_name(const std::string& name);

struct PrefillCase {
  BenchShape shape;  // length: tokens of the longest sequence
  WorkloadOptions options;
  bool is_causal = true;
  PrefillPrecision precision = PrefillPrecision::kAuto;
  std::vector<int32_t> seqlens_q;  // [batch_size] query rows: of the last, the new tokens
  std::vector<int32_t> seqlens_k;  // [batch_size] tokens in the cache, new ones included
};

// A case whose sequences are all of a shape's length. `seqlen_q` 0: with as many query rows.
PrefillCase equal_lengths(const BenchShape& shape, int64_t seqlen_q);

// A cache with as many pages as the sequences need, without tables.
KvCacheConfig cache_config(const PrefillCase& prefill);
// Of both products, over the visible pairs of a query row and a key: 2 S^2 d Hq for S causal rows
// (and as many keys).
double flops(const PrefillCase& prefill);
// "32:8x128@8K of 64K": heads and lengths.
std::string label(const PrefillCase& prefill);
// "page 64, residual 8, first key, fp8": all else.
std::string describe(const PrefillCase& prefill);

// The suites' names.
std::vector<std::string> prefill_suites();
// "goals": the table of docs/perf/prefill-h200.md. "wide": other heads, head dimensions and
// lengths, without a causal mask, over keys that are cached already. Cases that describe() alike
// follow one another. Throws UsageError for any other name.
std::vector<PrefillCase> prefill_suite(const std::string& name, const std::string& dtype,
                                       PrefillPrecision precision);

}  // namespace mpfa::tools
