// A cache on a GPU, where its sequences lie, and tensors with random values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "bench/gpu.h"
#include "mpfa/cache.h"
#include "mpfa/tensor.h"

namespace mpfa::tools {

template <typename T>
GpuTensor to_gpu(const std::vector<T>& values, std::initializer_list<int64_t> shape) {
  return GpuTensor(TensorView(values, shape));
}

// Normal values, the same on every machine. `dtype` is BF16 or FP16. Beyond some millions of values
// the same rows come again.
GpuTensor random_on_gpu(DLDataType dtype, std::span<const int64_t> shape, uint64_t seed);

// Throws Error unless all values of a BF16 or FP16 tensor are finite. Waits for the stream.
void check_finite(const GpuTensor& tensor, cudaStream_t stream);
// Throws Error unless the count of lengths and pages out of range, [1] int32, is 0.
void check_no_errors(const GpuTensor& error_count);

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

// Sequences in pages of random order.
struct GpuTables {
  GpuTables(const std::vector<int32_t>& lengths, int64_t num_pages, int64_t page_size);

  std::vector<int64_t> slots;  // of each token, sequence by sequence
  GpuTensor block_table;       // [b, max_pages]
  GpuTensor seq_lens;          // [b]
};

// Appends tokens to all of `slots`, [tokens] int64: those of k and v, [chunk, Hkv, d], again and
// again.
void append_chunks(const GpuCache& cache, const GpuTensor& k, const GpuTensor& v,
                   const GpuTensor& slots, cudaStream_t stream);

}  // namespace mpfa::tools
