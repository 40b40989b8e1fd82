// A decode step on a GPU: what the library's calls need, filled with random values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "bench/decode_case.h"
#include "bench/gpu.h"
#include "bench/gpu_cache.h"
#include "mpfa/attention.h"
#include "mpfa/cache.h"

namespace mpfa::tools {

// `num_caches` layers that share lengths, pages and queries. Calls only enqueue their work.
class GpuDecode {
 public:
  GpuDecode(const DecodeCase& decode, int64_t num_caches, cudaStream_t stream);

  int64_t num_caches() const { return static_cast<int64_t>(caches_.size()); }
  void schedule();
  // Needs schedule() before it.
  void attend(int64_t cache);
  // Waits. Throws Error unless the last result is finite and no call met a length or a page that is
  // out of range.
  void check_result();

 private:
  void make_queries();
  AttentionParams params() const;

  DecodeCase decode_;
  cudaStream_t stream_;
  std::vector<GpuCache> caches_;
  GpuTables tables_;
  GpuTensor cu_seqlens_q_;  // [b + 1], or none for one row each
  GpuTensor q_, out_;       // [b * seqlen_q, Hq, d]
  GpuTensor error_count_;   // [1]
  Plan plan_;
  GpuTensor workspace_;
};

}  // namespace mpfa::tools
