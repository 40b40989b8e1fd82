// What the peers' kernels are measured on: one decode step, a BF16 or FP8 cache, Q and out in BF16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace mpfa::peers {

// Types of the cache's elements.
struct Bf16Cache {
  static constexpr const char* kName = "bf16";
  static constexpr size_t kBytes = 2;
};
struct E4m3Cache {
  static constexpr const char* kName = "e4m3";
  static constexpr size_t kBytes = 1;
};

struct PeerShape {
  int batch_size = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int page_size = 0;
  int seqlen_q = 0;
  std::vector<int32_t> seqlens_k;  // [batch_size]

  int group_size() const { return num_q_heads / num_kv_heads; }
};

// K and V of one layer, each [pages, Hkv, page_size, d] (FlashInfer's HND).
struct PeerCache {
  void* k = nullptr;
  void* v = nullptr;
};

// A step's tensors on the GPU, and the two that plans are made from on the host too.
struct PeerStep {
  PeerShape shape;
  int max_pages = 0;                 // of the longest sequence
  std::vector<int32_t> page_indptr;  // [b + 1]: where a sequence's pages start in page_indices
  std::vector<int32_t> q_indptr;     // [b + 1]: where its query rows start
  int32_t* page_indptr_gpu = nullptr;
  int32_t* q_indptr_gpu = nullptr;
  int32_t* page_indices = nullptr;   // [all pages]
  int32_t* last_page_len = nullptr;  // [b]
  int32_t* block_table = nullptr;    // [b, max_pages]
  uint32_t* seq_lens = nullptr;      // [b]
  void* q = nullptr;                 // [b * seqlen_q, Hq, d] BF16
  void* out = nullptr;               // the same
};

// A step does not fit a kernel; says why.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A kernel that is planned for one step. `step` outlives it.
class PeerKernel {
 public:
  PeerKernel() = default;
  PeerKernel(const PeerKernel&) = delete;
  PeerKernel& operator=(const PeerKernel&) = delete;
  virtual ~PeerKernel() = default;

  // Enqueues one call; legal in a CUDA graph.
  virtual void run(const PeerCache& cache, cudaStream_t stream) = 0;
};

// FlashInfer's "fa2" back end: on CUDA cores, or on tensor cores (its prefill kernel, as
// BatchDecodeWithPagedKVCacheWrapper(use_tensor_cores=True) uses it). Instantiated for both caches
// and d = 64 and 128. Throws Unsupported.
template <class Cache, int kHeadDim>
std::unique_ptr<PeerKernel> make_fa2_cuda_cores(const PeerStep& step, cudaStream_t stream);
template <class Cache, int kHeadDim>
std::unique_ptr<PeerKernel> make_fa2_tensor_cores(const PeerStep& step, cudaStream_t stream);

// FlashInfer's XQA, from a library beside the program that was compiled for this group, page and
// head dimension (xqa.cu). Throws Unsupported, also where there is none.
std::unique_ptr<PeerKernel> make_xqa(const PeerStep& step, const std::string& cache_name);

// Values that are about normal, of BF16 or e4m3.
cudaError_t fill_random(void* data, size_t elements, bool is_e4m3, uint64_t seed,
                        cudaStream_t stream);

}  // namespace mpfa::peers
