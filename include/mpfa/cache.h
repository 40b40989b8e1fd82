// The paged low-bit KV cache: layout, writer, files (docs/spec.md, section 4).
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "mpfa/formats.h"
#include "mpfa/stream.h"

namespace mpfa {

// Frozen statistics; row s of each tensor is one set. FP32 throughout.
struct StatsView {
  const DLTensor* k_mean = nullptr;          // [stats, Hkv, d]     required
  const DLTensor* q_mean = nullptr;          // [stats, Hq, d]      required with delta_s
  const DLTensor* residual_basis = nullptr;  // [stats, Hkv, r, d]  required with k_residual
  const DLTensor* residual_scale = nullptr;  // [stats, Hkv, r]     required with k_residual; > 0
  const DLTensor* k_scale = nullptr;         // [stats, Hkv]        null: 1; finite and > 0
  const DLTensor* v_scale = nullptr;         // [stats, Hkv]        null: 1; finite and > 0
};

// Non-owning view of a cache. page_size, head counts and head_dim are read off the tensors. Outer
// strides are free, the innermost dimension is contiguous. All offsets are 64-bit.
struct KvCacheView {
  const DLTensor* k_codes = nullptr;     // [pages, Hkv, page_size, d / 2]   uint8: two e2m1 a byte
  const DLTensor* k_scales = nullptr;    // [pages, Hkv, page_size, d / 16]  e4m3 (or uint8)
  const DLTensor* v = nullptr;           // [pages, Hkv, page_size, d]       e4m3 (or uint8)
  const DLTensor* delta_s = nullptr;     // [pages, Hq, page_size]           BF16, optional
  const DLTensor* k_residual = nullptr;  // [pages, Hkv, page_size, r]       e4m3, optional
  const DLTensor* k_first = nullptr;     // [pages, Hkv, d]                  BF16, optional
  StatsView stats = {};
  const DLTensor* stats_index = nullptr;  // [b] int32: row of stats of each sequence; null: row 0
};

struct AppendParams {
  ScaleRule scale_rule = ScaleRule::kSearch;
  // [b + 1] int32: sequence i owns tokens cu_seqlens[i] .. cu_seqlens[i + 1] - 1 of this call;
  // tokens past the last must have slot -1. Picks rows of statistics by stats_index, and is
  // required where that names more than one sequence and there is more than one row (a decode step
  // of b sequences: 0, 1, ..., b). Null: every token belongs to the only sequence.
  const DLTensor* cu_seqlens = nullptr;
  // [1] int32 on the GPU, or null: incremented for every token that is not written because its slot
  // or its row of statistics is out of range, or it belongs to no sequence and its slot is not -1,
  // which the host cannot see. On the CPU these are errors, and this is not used.
  const DLTensor* error_count = nullptr;
};

// Writes new tokens into the cache in one pass: centres K with the frozen mean, quantises K and V,
// computes whichever of delta_s, k_residual and k_first the cache has (docs/spec.md, sections 1,
// 2).
//
//   k, v          [tokens, Hkv, d]  BF16, FP16 or FP32, one type; any outer strides and any
//                 alignment, innermost contiguous; not modified
//   slot_mapping  [tokens] int64: page * page_size + offset. -1 skips the token. A slot used twice
//                 in one call is an error.
//
// The tensors' device picks the back end: all on the CPU, or all on one GPU of compute
// capability 8.0 or later. There the call is asynchronous on `stream`, allocates nothing and may be
// captured in a CUDA graph; the bytes are the same.
//
// Errors (InvalidArgument, nothing written): a slot below -1 or beyond the last page, shapes, types
// or strides that do not fit, a statistics row out of range, cu_seqlens missing, pages that share
// memory with one another or with anything that the call reads (tensors may interleave in one
// buffer). On a GPU values are not looked at: see AppendParams::error_count; of a slot that is used
// twice either token's bytes remain. Results do not depend on the thread count or on how tokens are
// spread over calls.
void append_kv(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
               const DLTensor& slot_mapping, const AppendParams& params = {},
               cudaStream_t stream = nullptr);

// Shape of a cache that KvCache allocates.
struct KvCacheConfig {
  int64_t num_pages = 0;
  int64_t page_size = 64;   // 16, 32, 64 or 128
  int64_t num_q_heads = 0;  // may stay 0 (not known) without delta_s
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;       // 64 or 128
  int64_t residual_rank = 8;  // 0 (no k_residual), 4, 8 or 16
  bool first_key = true;
  bool delta_s = false;
  int64_t num_stats = 1;
  int64_t batch_size = 0;         // > 0: room for stats_index of this many sequences
  int64_t max_pages_per_seq = 0;  // > 0 (with batch_size): block_table of this width and seq_lens
  DLDevice device = {kDLCPU, 0};  // or a GPU of compute capability 8.0 or later
};

// Bytes that one token takes per KV head, all tensors of section 4 but k_first: 200 for d = 128
// without compensation (2.56 times less than BF16's 512).
double bytes_per_token_and_kv_head(const KvCacheConfig& config);

// A cache that owns its tensors, on the host or a GPU (KvCacheConfig::device), where view(),
// block_table() and seq_lens() are tensors of that device. Pages start zeroed, means at 0, scales
// at 1, the residual basis at the unit vectors; on a GPU they are so when the constructor returns,
// for every stream. Nothing may use the tensors of a cache that is destroyed, work that a GPU has
// yet to do included. A cache that has been moved from can only be destroyed or assigned to.
//
// Errors: InvalidArgument for a field that is out of range, Error where there is not enough memory.
class KvCache {
 public:
  explicit KvCache(const KvCacheConfig& config);
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  const KvCacheConfig& config() const;
  const KvCacheView& view() const;
  const DLTensor* block_table() const;  // [batch_size, max_pages_per_seq] int32, or null
  const DLTensor* seq_lens() const;     // [batch_size] int32, or null
  int64_t bytes() const;                // of all pages, statistics excluded

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A cache together with the tables that say which pages belong to which sequence.
struct KvCacheFile {
  KvCacheView cache;
  const DLTensor* block_table = nullptr;  // [b, max_pages] int32
  const DLTensor* seq_lens = nullptr;     // [b] int32
  std::map<std::string, std::string> metadata;
};

// Writes a cache as one safetensors file whose tensors are named as in docs/spec.md, section 4. The
// file appears whole or not at all. Tensors may be strided; the file holds them contiguous.
// Statistics that the cache does not use (q_mean without delta_s, residual_basis and residual_scale
// without k_residual) are left out. The metadata keys "format" and "version" are the file's own.
//
// All tensors are on the host, or all on one GPU: then the call waits for the work that the GPU has
// been given and copies them to the host first. Values are checked there.
//
// Errors: InvalidArgument for anything that load_cache would reject, IoError from the system.
void save_cache(const std::string& path, const KvCacheFile& file);

// Reads such a file; checks every shape and type against the others, pages in use against
// num_pages, lengths and rows of statistics against their tables. uint8 is accepted where e4m3 is
// expected, and "format" and "version" may be missing. `metadata` gets all other pairs. The cache
// is on the host.
//
// Errors: IoError naming the file and the tensor.
KvCache load_cache(const std::string& path, std::map<std::string, std::string>* metadata = nullptr);

}  // namespace mpfa
