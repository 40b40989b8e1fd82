// Attention of one sequence's queries over a cache whose tables have a batch of 1.
#pragma once

#include <cstdint>

#include "common/owned_tensor.h"
#include "mpfa/attention.h"
#include "mpfa/cache.h"

namespace mpfa::tools {

// Planned once, then called for any queries within the plan.
class SequenceAttention {
 public:
  struct Limits {
    int64_t num_q_heads = 0;
    int64_t max_rows = 0;  // queries of one call
    int64_t max_keys = 0;
    int64_t kv_split_size = 0;
  };
  // `cache` must have block_table and seq_lens, and must outlive this.
  SequenceAttention(const KvCache& cache, const Limits& limits, const AttentionParams& params = {});

  // out and q [rows, Hq, d] of one type, lse [rows, Hq] FP32 or null; any outer strides.
  void run(const DLTensor& out, const DLTensor* lse, const DLTensor& q) const;

 private:
  const KvCache& cache_;
  AttentionParams params_;
  Plan plan_;
  OwnedTensor workspace_;
  OwnedTensor cu_seqlens_;
};

// The number of tokens in such a cache.
int64_t sequence_length(const KvCache& cache);

}  // namespace mpfa::tools
