// What the peers' prefill kernels are measured on: Q, K and V side by side in BF16 or e4m3, out in
// BF16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace mpfa::peers {

struct PrefillShape {
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  bool is_causal = false;          // the last query row of a sequence sees all of its keys
  std::vector<int32_t> seqlens_q;  // [b]
  std::vector<int32_t> seqlens_k;  // [b]

  int batch_size() const { return static_cast<int>(seqlens_q.size()); }
  // Sequences that are all alike need no list of lengths.
  bool is_varlen() const;
  int64_t total_q() const;
  int64_t total_k() const;
  int max_seqlen_q() const;
  int max_seqlen_k() const;
  // Of both products, over the visible pairs of a query row and a key: 2 S^2 d Hq for S causal
  // rows.
  double flops() const;
};

// Tensors on the GPU. Rows of the sequences follow each other, without gaps.
struct PrefillTensors {
  bool is_e4m3 = false;             // q, k and v, without scales; BF16 otherwise
  void* q = nullptr;                // [total_q, Hq, d]
  void* k = nullptr;                // [total_k, Hkv, d]
  void* v = nullptr;                // the same
  void* out = nullptr;              // [total_q, Hq, d]
  float* lse = nullptr;             // [b, Hq, seqlen_q]; varlen: [Hq, total_q]
  int32_t* cu_seqlens_q = nullptr;  // [b + 1]: where a sequence's rows start
  int32_t* cu_seqlens_k = nullptr;
};

// `num_rows` random query rows of random heads are computed in double precision. Returns the root
// mean square, over these rows, of the relative L2 error of `out`; not finite where `out` is not.
// Throws CudaError.
double error_of_out(const PrefillShape& shape, const PrefillTensors& tensors, int num_rows,
                    cudaStream_t stream);

}  // namespace mpfa::peers
