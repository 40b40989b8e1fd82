// What a library of xqa.cu exports: peer_xqa_run, of type XqaRun.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mpfa::peers {

// Pointers as in PeerStep and PeerCache; strides count elements. Throws std::exception.
struct XqaCall {
  uint32_t sm_count = 0;
  uint32_t num_kv_heads = 0;
  uint32_t batch_size = 0;
  uint32_t max_seqlen_k = 0;  // a multiple of the page size: pages of a row of block_table
  void* out = nullptr;
  const void* q = nullptr;
  void* k = nullptr;
  void* v = nullptr;
  const int32_t* block_table = nullptr;
  const uint32_t* seq_lens = nullptr;
  uint64_t page_stride = 0;
  uint64_t token_stride = 0;
  uint64_t head_stride = 0;
  uint32_t* semaphores = nullptr;  // zero before the first call; calls leave them so
  void* scratch = nullptr;
};

using XqaRun = void (*)(const XqaCall& call, cudaStream_t stream);

}  // namespace mpfa::peers
