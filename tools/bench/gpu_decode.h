// A decode step on a GPU: what the library's calls need, filled with random values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "bench/decode_case.h"
#include "bench/gpu.h"
#include "mpfa/attention.h"
#include "mpfa/cache.h"

namespace mpfa::tools {

// One layer's cache on the current device, statistics included.
class GpuCache {
 public:
  // Pages are not initialised. Means are 0, scales 1, the residual basis unit vectors.
  explicit GpuCache(const KvCacheConfig& config);

  // Points into this object.
  KvCacheView view() const;

 private:
  GpuTensor k_codes_, k_scales_, v_, delta_s_, k_residual_, k_first_;
  GpuTensor k_mean_, q_mean_, residual_basis_, residual_scale_, k_scale_, v_scale_;
};

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
  void make_tables(const std::vector<int32_t>& lengths, int64_t num_pages);
  void make_queries();
  void fill(const GpuCache& cache, const GpuTensor& k, const GpuTensor& v, const GpuTensor& slots);
  AttentionParams params() const;

  DecodeCase decode_;
  cudaStream_t stream_;
  std::vector<GpuCache> caches_;
  std::vector<int64_t> slots_;  // of each token, sequence by sequence
  GpuTensor block_table_;       // [b, max_pages]
  GpuTensor seq_lens_;          // [b]
  GpuTensor cu_seqlens_q_;      // [b + 1], or none for one row each
  GpuTensor q_, out_;           // [b * seqlen_q, Hq, d]
  GpuTensor error_count_;       // [1]
  Plan plan_;
  GpuTensor workspace_;
};

}  // namespace mpfa::tools
