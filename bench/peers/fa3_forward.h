// FlashAttention-3's forward kernels, called as its Python binding calls them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "prefill.h"

namespace mpfa::peers {

// One call on given tensors: flash_attn_func, or flash_attn_varlen_func where lengths differ.
class Fa3Forward {
 public:
  // For the current device, which must have compute capability 9.0; head_dim 64 or 128. The tensors
  // outlive this. Throws Unsupported, CudaError.
  Fa3Forward(const PrefillShape& shape, const PrefillTensors& tensors);
  Fa3Forward(const Fa3Forward&) = delete;
  Fa3Forward& operator=(const Fa3Forward&) = delete;
  ~Fa3Forward();

  // Enqueues the call; legal in a CUDA graph.
  void run(cudaStream_t stream);
  // Whether a tile holds the rows of all query heads of a KV head, as FA3's heuristic chose.
  bool packs_gqa() const;

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

}  // namespace mpfa::peers
