// A cache of one sequence, as the commands use it: pages in order, one row of statistics.
#pragma once

#include <cstdint>

#include "common/owned_tensor.h"
#include "mpfa/cache.h"
#include "mpfa/tensor.h"

namespace mpfa::tools {

struct SequenceCacheConfig {
  int64_t capacity = 0;  // tokens
  int64_t page_size = 64;
  int64_t num_q_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t residual_rank = 8;
  bool first_key = true;
  bool delta_s = false;
  ScaleRule scale_rule = ScaleRule::kSearch;

  KvCacheConfig cache_config() const;
};

class SequenceCache {
 public:
  // Empty, its statistics neutral: cache().view().stats is to be filled before the first append().
  explicit SequenceCache(const SequenceCacheConfig& config);

  // Appends tokens: k and v [tokens, Hkv, d].
  void append(const TensorView& k, const TensorView& v);
  // Forgets all tokens.
  void clear() { set_length(0); }

  int64_t length() const { return length_; }
  const KvCache& cache() const { return cache_; }

 private:
  void set_length(int64_t length);

  SequenceCacheConfig config_;
  KvCache cache_;
  OwnedTensor slots_;
  int64_t length_ = 0;
};

}  // namespace mpfa::tools
