// Decode steps to measure on a GPU, and the lists of them that the command knows by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/workload.h"
#include "common/bench_shape.h"

namespace mpfa::tools {

// The lengths of a batch whose longest sequence is a shape's.
enum class Lengths {
  kEqual,    // all alike
  kUniform,  // drawn from 1 to the longest; the same ones every time
  kUneven,   // the first sequence is the longest, all others 128 times shorter
};

// "equal", "uniform", "uneven", and back. Throws UsageError for any other name.
std::string lengths_name(Lengths lengths);
Lengths lengths_from_name(const std::string& name);

struct DecodeCase {
  BenchShape shape;  // length: tokens of the longest sequence
  WorkloadOptions options;
  Lengths lengths = Lengths::kEqual;
  int64_t seqlen_q = 1;  // query rows of each sequence
};

// Tokens in the cache of each sequence, [batch_size].
std::vector<int32_t> seqlens_k(const DecodeCase& decode);
// A cache with as many pages as those need, without tables.
KvCacheConfig cache_config(const DecodeCase& decode);
// What a step reads once, k_first aside.
double cache_bytes(const DecodeCase& decode);
// "page 64, residual 8, first key": all but the shape.
std::string describe(const DecodeCase& decode);

// The suites' names.
std::vector<std::string> decode_suites();
// "goals": the table of docs/perf/decode-h200.md. "wide": other head dimensions, groups, pages and
// lengths. Cases that describe() alike follow one another. `dtype` is of q. Throws UsageError for
// any other name.
std::vector<DecodeCase> decode_suite(const std::string& name, const std::string& dtype);

}  // namespace mpfa::tools
