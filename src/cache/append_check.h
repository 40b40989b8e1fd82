// append_kv's arguments, checked before anything is written.
#pragma once

#include <vector>

#include "core/cache_layout.h"

namespace mpfa::internal {

// k or v of the call: [tokens, Hkv, d], innermost contiguous, any alignment.
struct AppendInput {
  const std::byte* data = nullptr;
  int64_t token_stride = 0;  // bytes
  int64_t head_stride = 0;   // bytes

  const std::byte* row(int64_t token, int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};

struct AppendArgs {
  CacheTensors cache;
  FloatType type = FloatType::kBf16;
  int64_t num_tokens = 0;
  AppendInput k;
  AppendInput v;
  Tensor<int64_t, 1> slots;
  // Row of statistics of every token; empty: row 0 for all.
  std::vector<int64_t> stats_rows;

  int64_t stats_row(int64_t token) const { return stats_rows.empty() ? 0 : stats_rows[token]; }
};

// Throws InvalidArgument naming the argument that does not fit. Where values are not known, slots
// and lengths are left to the kernel, and stats_rows stays empty.
AppendArgs check_append(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
                        const DLTensor& slot_mapping, const AppendParams& params,
                        Values values = Values::kKnown);

}  // namespace mpfa::internal
