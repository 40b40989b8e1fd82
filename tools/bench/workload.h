// What mpfa bench measures: one shape's tensors, filled with random values, and a call to time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/bench_shape.h"
#include "common/owned_tensor.h"
#include "mpfa/attention.h"
#include "mpfa/cache.h"

namespace mpfa::tools {

enum class BenchMode { kAppend, kDecode, kPrefill };
std::string mode_name(BenchMode mode);

struct WorkloadOptions {
  int64_t page_size = 64;
  int64_t residual_rank = 8;
  bool first_key = true;
  bool delta_s = false;
  std::string dtype = "bf16";  // of q, k and v: bf16, fp16 or fp32
  int64_t kv_split_size = 0;
};

// Tokens of K and V that fill a longer cache again and again.
inline constexpr int64_t kChunkTokens = 4096;

// Of K, V and Q by the option's name.
DLDataType dtype_from_name(const std::string& name);
// Normal values, the same on every machine; of type BF16, FP16 or FP32.
void fill_random(const OwnedTensor& tensor, uint64_t seed);
// A cache whose sequences are all of a shape's length, with its tables.
KvCacheConfig cache_config(const BenchShape& shape, const WorkloadOptions& options);
// What the pages of a cache take in memory.
double memory_bytes(const KvCacheConfig& config);

// append: all tokens of all sequences into the pages. decode: one query row per sequence over its
// whole length. prefill: as many query rows as keys, causal.
class Workload {
 public:
  Workload(BenchMode mode, const BenchShape& shape, const WorkloadOptions& options);

  // The call to time.
  void run();

  double cache_bytes() const;  // written or read once by a call
  double input_bytes() const;  // of k and v in their own type: append
  double tokens() const;       // written (append), or query rows
  double flops() const;        // 0 for append
  double memory_bytes() const { return static_cast<double>(cache_.bytes()); }

 private:
  void fill_cache();
  void append(int64_t first_token, int64_t tokens);
  void make_queries();

  BenchMode mode_;
  BenchShape shape_;
  WorkloadOptions options_;
  KvCache cache_;
  OwnedTensor k_, v_;    // [tokens or one chunk, Hkv, d]
  OwnedTensor slots_;    // [tokens] int64
  OwnedTensor q_, out_;  // [rows, Hq, d]
  OwnedTensor lse_;      // [rows, Hq]
  OwnedTensor cu_seqlens_;
  Plan plan_;
  OwnedTensor workspace_;
};

}  // namespace mpfa::tools
