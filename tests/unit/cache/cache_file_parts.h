// What the tests of cache files share: random caches, their comparison, and cache files taken apart
// so that one thing in them can be changed.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "mpfa/cache.h"
#include "support/test_tensor.h"
#include "unit/io/io_test_util.h"

namespace mpfa::testing {

// Three pages of 16 tokens, everything optional included, four sequences.
inline KvCacheConfig full_config() {
  KvCacheConfig config;
  config.num_pages = 3;
  config.page_size = 16;
  config.num_q_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.delta_s = true;
  config.num_stats = 2;
  config.batch_size = 4;
  config.max_pages_per_seq = 5;
  return config;
}

inline std::vector<KvCacheConfig> configs() {
  KvCacheConfig bare = full_config();
  bare.delta_s = bare.first_key = false;
  bare.residual_rank = bare.batch_size = bare.max_pages_per_seq = 0;
  bare.num_stats = 1;
  KvCacheConfig rows_only = full_config();
  rows_only.max_pages_per_seq = 0;
  rows_only.residual_rank = 16;
  KvCacheConfig wide = full_config();
  wide.head_dim = 128;
  wide.page_size = 128;
  wide.delta_s = false;
  wide.residual_rank = 4;
  return {full_config(), bare, rows_only, wide};
}

inline std::vector<const DLTensor*> tensors_of(const KvCache& cache) {
  const KvCacheView& v = cache.view();
  const StatsView& s = v.stats;
  return {v.k_codes, v.k_scales, v.v,           v.delta_s,           v.k_residual,
          v.k_first, s.k_mean,   s.q_mean,      s.residual_basis,    s.residual_scale,
          s.k_scale, s.v_scale,  v.stats_index, cache.block_table(), cache.seq_lens()};
}

inline int64_t item_size(const DLTensor& tensor) { return tensor.dtype.bits / 8; }

inline int64_t count_of(const DLTensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

// Random bytes in the pages, random numbers in the statistics, valid tables.
inline KvCache random_cache(const KvCacheConfig& config, uint32_t seed) {
  KvCache cache(config);
  std::mt19937 random(seed);
  for (const DLTensor* t : tensors_of(cache)) {
    if (t == nullptr || t->dtype.code == kDLInt) continue;
    if (t->dtype.bits == 32) {
      auto* data = static_cast<float*>(t->data);
      for (int64_t i = 0; i < count_of(*t); ++i)
        data[i] = static_cast<float>(1 + random() % 9999) / 64;
    } else {
      auto* data = static_cast<uint8_t*>(t->data);
      for (int64_t i = 0; i < count_of(*t) * item_size(*t); ++i)
        data[i] = static_cast<uint8_t>(random());
    }
  }
  if (cache.view().stats_index != nullptr) {
    auto* rows = static_cast<int32_t*>(cache.view().stats_index->data);
    for (int64_t i = 0; i < config.batch_size; ++i)
      rows[i] = static_cast<int32_t>(i % config.num_stats);
  }
  if (cache.block_table() != nullptr) {
    auto* table = static_cast<int32_t*>(cache.block_table()->data);
    for (int64_t i = 0; i < count_of(*cache.block_table()); ++i) {
      table[i] = static_cast<int32_t>(random() % static_cast<uint32_t>(config.num_pages));
    }
    const int32_t lengths[] = {0, 33, 80, 1};
    std::memcpy(cache.seq_lens()->data, lengths, sizeof(lengths));
  }
  return cache;
}

inline void expect_same(const KvCache& a, const KvCache& b) {
  const std::vector<const DLTensor*> first = tensors_of(a);
  const std::vector<const DLTensor*> second = tensors_of(b);
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_EQ(first[i] == nullptr, second[i] == nullptr) << i;
    if (first[i] == nullptr) continue;
    EXPECT_EQ(internal::shape_string(*first[i]), internal::shape_string(*second[i]));
    EXPECT_EQ(internal::dtype_string(first[i]->dtype), internal::dtype_string(second[i]->dtype));
    const auto bytes = static_cast<size_t>(count_of(*first[i]) * item_size(*first[i]));
    EXPECT_EQ(std::memcmp(first[i]->data, second[i]->data, bytes), 0) << i;
  }
}

// The same cache in memory with gaps; with `inner_gaps` also between single elements of those
// tensors whose innermost stride is free.
class StridedCopy {
 public:
  StridedCopy(const KvCache& cache, bool inner_gaps) {
    const KvCacheView& v = cache.view();
    file_.cache.k_codes = copy(v.k_codes, false);
    file_.cache.k_scales = copy(v.k_scales, false);
    file_.cache.v = copy(v.v, false);
    file_.cache.delta_s = copy(v.delta_s, false);
    file_.cache.k_residual = copy(v.k_residual, false);
    file_.cache.k_first = copy(v.k_first, false);
    file_.cache.stats.k_mean = copy(v.stats.k_mean, false);
    file_.cache.stats.q_mean = copy(v.stats.q_mean, false);
    file_.cache.stats.residual_basis = copy(v.stats.residual_basis, false);
    file_.cache.stats.residual_scale = copy(v.stats.residual_scale, false);
    file_.cache.stats.k_scale = copy(v.stats.k_scale, inner_gaps);
    file_.cache.stats.v_scale = copy(v.stats.v_scale, inner_gaps);
    file_.cache.stats_index = copy(v.stats_index, inner_gaps);
    file_.block_table = copy(cache.block_table(), inner_gaps);
    file_.seq_lens = copy(cache.seq_lens(), inner_gaps);
  }

  const KvCacheFile& file() const { return file_; }

 private:
  const DLTensor* copy(const DLTensor* from, bool inner_gaps) {
    const TestTensor::Shape shape(from->shape, from->shape + from->ndim);
    TestTensor::Shape strides(shape.size(), inner_gaps ? 3 : 1);
    for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1] + 5;
    TestTensor& to = tensors_.emplace_back(from->dtype, shape, strides);
    const auto* source = static_cast<const std::byte*>(from->data);
    DLTensor target = to.dl();
    to.for_each([&](const TestTensor::Shape& at) {
      int64_t offset = 0;
      for (size_t i = 0; i < at.size(); ++i) offset += at[i] * strides[i];
      std::memcpy(internal::data_of(target) + offset * item_size(target), source,
                  static_cast<size_t>(item_size(target)));
      source += item_size(target);
    });
    return to.ptr();
  }

  std::deque<TestTensor> tensors_;
  KvCacheFile file_;
};

// A safetensors file in parts.
struct FileParts {
  struct Part {
    internal::Dtype dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };

  explicit FileParts(const std::string& path) {
    const auto reader = internal::SafetensorsReader::open(path);
    metadata = reader.metadata();
    for (const internal::TensorInfo& info : reader.tensors()) {
      tensors[info.name] = {
          info.dtype, info.shape, {info.data, info.data + (info.end - info.begin)}};
    }
  }

  void write(const std::string& path) const {
    internal::SafetensorsWriter writer;
    for (const auto& [key, value] : metadata) writer.add_metadata(key, value);
    for (const auto& [name, part] : tensors) {
      writer.add(name, part.dtype, part.shape, part.bytes.data());
    }
    writer.write(path);
  }

  // Gives a tensor another type and shape; bytes that are then missing are ones.
  void resize(const std::string& name, internal::Dtype dtype, const std::vector<int64_t>& shape) {
    Part& part = tensors.at(name);
    part.dtype = dtype;
    part.shape = shape;
    part.bytes.resize(internal::tensor_bytes(shape, dtype), std::byte{1});
  }

  template <typename T>
  T& value(const std::string& name, int64_t index) {
    return reinterpret_cast<T*>(tensors.at(name).bytes.data())[index];
  }

  std::map<std::string, Part> tensors;
  std::map<std::string, std::string> metadata;
};

class CacheFileTest : public ::testing::Test {
 protected:
  // Writes a good file of everything to `path`.
  KvCache save_full() {
    KvCache cache = random_cache(full_config(), 1);
    save_cache(path, {cache.view(), cache.block_table(), cache.seq_lens(), {}});
    return cache;
  }

  internal::TempFolder folder;
  std::string path = folder.file("cache.safetensors");
};

}  // namespace mpfa::testing
