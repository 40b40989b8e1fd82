// A KvCacheView, checked once and turned into typed tensors. Writer, readers and file I/O all start
// here, so that a cache is valid everywhere or nowhere.
#pragma once

#include <vector>

#include "core/overlap.h"
#include "core/tensor.h"
#include "mpfa/cache.h"

namespace mpfa::internal {

struct StatsTensors {
  Tensor<float, 3> k_mean;          // [stats, Hkv, d]
  Tensor<float, 3> q_mean;          // [stats, Hq, d]
  Tensor<float, 4> residual_basis;  // [stats, Hkv, r, d]
  Tensor<float, 3> residual_scale;  // [stats, Hkv, r]
  Tensor<float, 2> k_scale;         // [stats, Hkv]
  Tensor<float, 2> v_scale;         // [stats, Hkv]
};

struct CacheTensors {
  Tensor<uint8_t, 4> k_codes;  // [pages, Hkv, page_size, d / 2]
  Tensor<E4m3, 4> k_scales;    // [pages, Hkv, page_size, d / 16]
  Tensor<E4m3, 4> v;           // [pages, Hkv, page_size, d]
  Tensor<Bf16, 3> delta_s;     // [pages, Hq, page_size]
  Tensor<E4m3, 4> k_residual;  // [pages, Hkv, page_size, r]
  Tensor<Bf16, 3> k_first;     // [pages, Hkv, d]
  Tensor<int32_t, 1> stats_index;
  StatsTensors stats;

  int64_t num_pages = 0;
  int64_t num_kv_heads = 0;
  int64_t num_q_heads = 0;  // 0 where neither delta_s nor q_mean tells it
  int64_t page_size = 0;
  int head_dim = 0;
  int residual_rank = 0;
  int64_t num_stats = 0;

  float k_scale(int64_t stats_row, int64_t kv_head) const {
    return stats.k_scale ? *stats.k_scale.at(stats_row, kv_head) : 1.0f;
  }
  float v_scale(int64_t stats_row, int64_t kv_head) const {
    return stats.v_scale ? *stats.v_scale.at(stats_row, kv_head) : 1.0f;
  }
  // Row of statistics of a sequence.
  int64_t stats_row(int64_t sequence) const { return stats_index ? *stats_index.at(sequence) : 0; }
};

// Whether the tensors of a call are in host memory, so that their values can be looked at, or on a
// GPU, where kernels have to do with whatever they find.
enum class Values : uint8_t { kKnown, kOnDevice };

// Throws InvalidArgument naming the tensor that does not fit.
CacheTensors check_cache(const KvCacheView& cache, Values values = Values::kKnown);

// The tensors of a checked cache that are there, with the names that errors call them by: the
// pages, which append_kv writes, and the statistics, which are read only. Those that the cache has
// no use for are left out.
std::vector<NamedTensor> page_tensors(const KvCacheView& cache);
std::vector<NamedTensor> stats_tensors(const KvCacheView& cache);

}  // namespace mpfa::internal
