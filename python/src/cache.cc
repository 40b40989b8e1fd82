// The cache: writer, owned tensors, files (mpfa/cache.h).
#include "mpfa/cache.h"

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "args.h"
#include "cache_args.h"
#include "export.h"
#include "owned_tensor.h"

namespace mpfa::python {
namespace {

using tvm::ffi::Map;
using tvm::ffi::String;

// What Python's KvCache is made of, by name; those that the cache lacks are not there.
using TensorMap = Map<String, Tensor>;

KvCacheConfig cache_config(int64_t num_pages, int64_t page_size, int64_t num_q_heads,
                           int64_t num_kv_heads, int64_t head_dim, int64_t residual_rank,
                           bool first_key, bool delta_s, int64_t num_stats, int64_t batch_size,
                           int64_t max_pages_per_seq, DLDevice device) {
  return {.num_pages = num_pages,
          .page_size = page_size,
          .num_q_heads = num_q_heads,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .residual_rank = residual_rank,
          .first_key = first_key,
          .delta_s = delta_s,
          .num_stats = num_stats,
          .batch_size = batch_size,
          .max_pages_per_seq = max_pages_per_seq,
          .device = device};
}

TensorMap tensors_of(KvCache cache) {
  const auto owner = std::make_shared<KvCache>(std::move(cache));
  TensorMap tensors;
  const auto add = [&](std::string_view name, const DLTensor* tensor) {
    if (tensor != nullptr)
      tensors.Set(String(name.data(), name.size()), owned_tensor(*tensor, owner));
  };
  KvCacheView fields = owner->view();
  for (const CacheField& field : kCacheFields) add(field.name, field.slot(fields));
  add("block_table", owner->block_table());
  add("seq_lens", owner->seq_lens());
  return tensors;
}

Array<String> cache_fields() {
  Array<String> names;
  for (const CacheField& field : kCacheFields) {
    names.push_back(String(field.name.data(), field.name.size()));
  }
  return names;
}

TensorMap new_cache(int64_t num_pages, int64_t page_size, int64_t num_q_heads, int64_t num_kv_heads,
                    int64_t head_dim, int64_t residual_rank, bool first_key, bool delta_s,
                    int64_t num_stats, int64_t batch_size, int64_t max_pages_per_seq,
                    DLDevice device) {
  return tensors_of(
      KvCache(cache_config(num_pages, page_size, num_q_heads, num_kv_heads, head_dim, residual_rank,
                           first_key, delta_s, num_stats, batch_size, max_pages_per_seq, device)));
}

double bytes_per_token_and_kv_head(int64_t num_q_heads, int64_t num_kv_heads, int64_t head_dim,
                                   int64_t residual_rank, bool delta_s) {
  return mpfa::bytes_per_token_and_kv_head({.num_q_heads = num_q_heads,
                                            .num_kv_heads = num_kv_heads,
                                            .head_dim = head_dim,
                                            .residual_rank = residual_rank,
                                            .delta_s = delta_s});
}

void append_kv(const Array<OptionalTensor>& cache, const Tensor& k, const Tensor& v,
               const Tensor& slot_mapping, bool search_scales, const OptionalTensor& cu_seqlens,
               const OptionalTensor& error_count) {
  mpfa::append_kv(cache_view(cache), view(k), view(v), view(slot_mapping),
                  {.scale_rule = scale_rule_of(search_scales),
                   .cu_seqlens = view_or_null(cu_seqlens),
                   .error_count = view_or_null(error_count)},
                  stream_of(k));
}

void save_cache(const String& path, const Array<OptionalTensor>& cache,
                const OptionalTensor& block_table, const OptionalTensor& seq_lens,
                const Map<String, String>& metadata) {
  std::map<std::string, std::string> pairs;
  for (const auto& [key, value] : metadata) pairs.emplace(key, value);
  mpfa::save_cache(path, {cache_view(cache), view_or_null(block_table), view_or_null(seq_lens),
                          std::move(pairs)});
}

// The tensors and the metadata.
tvm::ffi::Tuple<TensorMap, Map<String, String>> load_cache(const String& path) {
  std::map<std::string, std::string> pairs;
  TensorMap tensors = tensors_of(mpfa::load_cache(path, &pairs));
  Map<String, String> metadata;
  for (const auto& [key, value] : pairs) metadata.Set(key, value);
  return tvm::ffi::Tuple<TensorMap, Map<String, String>>(tensors, metadata);
}

}  // namespace
}  // namespace mpfa::python

MPFA_PYTHON_EXPORT(cache_fields)
MPFA_PYTHON_EXPORT(new_cache)
MPFA_PYTHON_EXPORT(bytes_per_token_and_kv_head)
MPFA_PYTHON_EXPORT(append_kv)
MPFA_PYTHON_EXPORT(save_cache)
MPFA_PYTHON_EXPORT(load_cache)
