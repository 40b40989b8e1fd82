#include "common/sequence_cache.h"

#include <algorithm>
#include <numeric>

#include "core/ceil_div.h"

namespace mpfa::tools {

KvCacheConfig SequenceCacheConfig::cache_config() const {
  KvCacheConfig config;
  config.page_size = page_size;
  config.num_pages = std::max<int64_t>(1, internal::ceil_div(capacity, page_size));
  config.num_q_heads = num_q_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.residual_rank = residual_rank;
  config.first_key = first_key;
  config.delta_s = delta_s;
  config.batch_size = 1;
  config.max_pages_per_seq = config.num_pages;
  return config;
}

SequenceCache::SequenceCache(const SequenceCacheConfig& config)
    : config_(config), cache_(config.cache_config()) {
  auto* pages = data_as<int32_t>(*cache_.block_table());
  std::iota(pages, pages + cache_.config().num_pages, 0);
  slots_ = OwnedTensor("slots", dtype_of<int64_t>(), {std::max<int64_t>(1, config.capacity)});
  std::iota(slots_.data<int64_t>(), slots_.data<int64_t>() + config.capacity, int64_t{0});
}

void SequenceCache::append(const TensorView& k, const TensorView& v) {
  AppendParams params;
  params.scale_rule = config_.scale_rule;
  const int64_t end = length_ + k.size(0);
  append_kv(cache_.view(), k, v, slots_.view().slice(0, length_, end), params);
  set_length(end);
}

void SequenceCache::set_length(int64_t length) {
  length_ = length;
  data_as<int32_t>(*cache_.seq_lens())[0] = static_cast<int32_t>(length);
}

}  // namespace mpfa::tools
