// Shapes to measure, as the command line spells them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpfa::tools {

struct BenchShape {
  int64_t batch_size = 1;
  int64_t num_q_heads = 1;
  int64_t num_kv_heads = 1;
  int64_t head_dim = 128;
  int64_t length = 0;  // tokens of each sequence

  // As parse_bench_shapes reads it.
  std::string str() const;

  friend bool operator==(const BenchShape&, const BenchShape&) = default;
};

// Parses a comma-separated list of BATCHxHQ:HKVxD@LENGTH, such as "1x32:8x128@32768,8x9:3x64@4K".
// A number may end in K (1024). Throws UsageError naming the shape, what is wrong with it and what
// is allowed: HQ a multiple of HKV, D one that a cache can hold, no number 0, and no more than 2^40
// elements of K.
std::vector<BenchShape> parse_bench_shapes(std::string_view text);

}  // namespace mpfa::tools
