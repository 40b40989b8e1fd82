// A cache in one block of bytes, and the bytes that append_kv must leave there: computed by the
// scalar reference and placed by this file's own strides, so that comparing the whole block checks
// values, addresses and that nothing else was touched.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "append_field.h"
#include "cache/append_reference.h"
#include "mpfa/cache.h"
#include "mpfa/check.h"

namespace mpfa::internal {

enum class CacheLayout : uint8_t {
  kDense,    // every tensor row-major by itself
  kRecords,  // a record per token and head with codes, scales, v and residual side by side
  kBackward  // pages in falling order, heads innermost but one, odd byte offsets
};

struct CacheSpec {
  int64_t head_dim = 128;
  int64_t kv_heads = 2;
  int64_t group = 0;  // query heads per KV head; 0: no delta_s
  int64_t rank = 8;   // 0: no residual
  bool first_key = true;
  int64_t page_size = 16;
  int64_t pages = 6;
  int64_t stats = 1;
  bool scales = false;  // k_scale and v_scale other than 1
  bool stats_index = false;
  CacheLayout layout = CacheLayout::kDense;
  ScaleRule rule = ScaleRule::kSearch;

  std::string describe() const;
};

inline std::string CacheSpec::describe() const {
  return str_cat("d=", head_dim, " Hkv=", kv_heads, " G=", group, " r=", rank, " first=", first_key,
                 " page_size=", page_size, " stats=", stats, " scales=", scales,
                 " layout=", static_cast<int>(layout), " rule=", static_cast<int>(rule));
}

class TestCache {
 public:
  TestCache(const CacheSpec& spec, uint64_t seed) : spec(spec) {
    place_pages();
    bytes.resize(end_ + 64);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(37 * i + 11);
    make_stats(seed);
  }

  // A view of these bytes, or of others of the same length.
  KvCacheView view() { return view(bytes); }
  KvCacheView view(std::vector<uint8_t>& memory);

  // What the reference writes for one token, into a block like `bytes`.
  void append_reference(std::vector<uint8_t>& memory, const Owned& k, const Owned& v, int64_t token,
                        int64_t slot, int64_t stats_row) const;

  CacheSpec spec;
  std::vector<uint8_t> bytes;
  Field k_codes, k_scales, v, delta_s, k_residual, k_first;
  Owned k_mean, q_mean, residual_basis, residual_scale, k_scale, v_scale, stats_index;

 private:
  AppendStats stats_of(int64_t row, int64_t h) const;
  AppendTargets targets_of(std::vector<uint8_t>& memory, int64_t slot, int64_t h) const;
  void place_pages();
  void place_dense();
  void place_records();
  void place_backward();
  void make_stats(uint64_t seed);
  void make_residual_stats(std::mt19937_64& rng);
  Field add(DLDataType dtype, std::vector<int64_t> shape, std::vector<int> order, int64_t pad,
            int64_t align);

  int64_t end_ = 0;
  DLTensor tensors_[6];
};

inline Field TestCache::add(DLDataType dtype, std::vector<int64_t> shape, std::vector<int> order,
                            int64_t pad, int64_t align) {
  const int64_t offset = (end_ + 17 + align - 1) / align * align;
  Field field = Field::packed(dtype, std::move(shape), offset, std::move(order), pad);
  end_ = field.end();
  return field;
}

inline void TestCache::place_pages() {
  if (spec.layout == CacheLayout::kDense) place_dense();
  if (spec.layout == CacheLayout::kRecords) place_records();
  if (spec.layout == CacheLayout::kBackward) place_backward();
}

inline void TestCache::place_dense() {
  const auto& s = spec;
  k_codes = add(kUint8, {s.pages, s.kv_heads, s.page_size, s.head_dim / 2}, {}, 0, 64);
  k_scales = add(kFloat8, {s.pages, s.kv_heads, s.page_size, s.head_dim / 16}, {}, 0, 64);
  v = add(kFloat8, {s.pages, s.kv_heads, s.page_size, s.head_dim}, {}, 0, 64);
  if (s.group > 0) {
    delta_s = add(kBfloat16, {s.pages, s.kv_heads * s.group, s.page_size}, {}, 0, 64);
  }
  if (s.rank > 0) k_residual = add(kFloat8, {s.pages, s.kv_heads, s.page_size, s.rank}, {}, 0, 64);
  if (s.first_key) k_first = add(kBfloat16, {s.pages, s.kv_heads, s.head_dim}, {}, 0, 64);
}

inline void TestCache::place_records() {
  const auto& s = spec;
  const int64_t record = s.head_dim / 2 + s.head_dim / 16 + s.head_dim + s.rank + 3;
  const std::vector<int64_t> strides = {s.page_size * s.kv_heads * record, record,
                                        s.kv_heads * record, 1};
  int64_t at = 5;
  const auto slice = [&](DLDataType dtype, int64_t width) {
    Field field(dtype, {s.pages, s.kv_heads, s.page_size, width}, strides, at);
    at += width;
    return field;
  };
  k_codes = slice(kUint8, s.head_dim / 2);
  v = slice(kUint8, s.head_dim);
  k_scales = slice(kUint8, s.head_dim / 16);
  if (s.rank > 0) k_residual = slice(kUint8, s.rank);
  end_ = 5 + s.pages * strides[0];
  if (s.group > 0) {
    delta_s = add(kBfloat16, {s.pages, s.kv_heads * s.group, s.page_size}, {1, 0, 2}, 3, 2);
  }
  if (s.first_key) k_first = add(kBfloat16, {s.pages, s.kv_heads, s.head_dim}, {1, 0, 2}, 1, 2);
}

inline void TestCache::place_backward() {
  const auto& s = spec;
  const auto backward = [&](DLDataType dtype, std::vector<int64_t> shape, std::vector<int> order,
                            int64_t pad, int64_t align) {
    const Field forward = add(dtype, shape, std::move(order), pad, align);
    std::vector<int64_t> strides = forward.strides();
    const int64_t last_page = forward.byte({shape[0] - 1});
    strides[0] = -strides[0];
    return Field(dtype, std::move(shape), std::move(strides), last_page);
  };
  k_codes =
      backward(kUint8, {s.pages, s.kv_heads, s.page_size, s.head_dim / 2}, {0, 2, 1, 3}, 7, 1);
  k_scales =
      backward(kFloat8, {s.pages, s.kv_heads, s.page_size, s.head_dim / 16}, {1, 0, 2, 3}, 1, 1);
  v = backward(kFloat8, {s.pages, s.kv_heads, s.page_size, s.head_dim}, {2, 1, 0, 3}, 5, 1);
  if (s.group > 0) {
    delta_s = backward(kBfloat16, {s.pages, s.kv_heads * s.group, s.page_size}, {1, 0, 2}, 1, 2);
  }
  if (s.rank > 0) {
    k_residual = backward(kFloat8, {s.pages, s.kv_heads, s.page_size, s.rank}, {0, 1, 2, 3}, 1, 1);
  }
  if (s.first_key) k_first = backward(kBfloat16, {s.pages, s.kv_heads, s.head_dim}, {}, 3, 2);
}

inline void TestCache::make_stats(uint64_t seed) {
  const auto& s = spec;
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](Owned& tensor, float scale) {
    const int64_t rows = tensor.field.size(0);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t h = 0; h < tensor.field.size(1); ++h) {
        for (int64_t n = 0; n < tensor.field.size(2); ++n) {
          tensor.set({i, h, n}, scale * normal(rng));
        }
      }
    }
  };
  k_mean = Owned(Field::packed(kFloat32, {s.stats, s.kv_heads, s.head_dim}, 4, {}, 3));
  fill(k_mean, 2.0f);
  if (s.group > 0) {
    q_mean = Owned(
        Field::packed(kFloat32, {s.stats, s.kv_heads * s.group, s.head_dim}, 12, {1, 0, 2}, 1));
    fill(q_mean, 1.0f);
  }
  if (s.rank > 0) make_residual_stats(rng);
  k_scale = Owned(Field::packed(kFloat32, {s.stats, s.kv_heads}, 0, {1, 0}));
  v_scale = Owned(Field::packed(kFloat32, {s.stats, s.kv_heads}, 4, {}, 1));
  std::uniform_real_distribution<float> uniform(0.1f, 3.0f);
  for (int64_t i = 0; i < s.stats; ++i) {
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      k_scale.set({i, h}, uniform(rng));
      v_scale.set({i, h}, uniform(rng));
    }
  }
  // Sequence b uses row stats - 1 - b, so that no row is its sequence's own number by chance.
  stats_index = Owned(Field(kInt32, {s.stats}, {2}, 4));
  for (int64_t b = 0; b < s.stats; ++b) {
    stats_index.set({b}, static_cast<int32_t>(s.stats - 1 - b));
  }
}

inline void TestCache::make_residual_stats(std::mt19937_64& rng) {
  const auto& s = spec;
  residual_basis =
      Owned(Field::packed(kFloat32, {s.stats, s.kv_heads, s.rank, s.head_dim}, 4, {1, 0, 2, 3}, 5));
  residual_scale = Owned(Field::packed(kFloat32, {s.stats, s.kv_heads, s.rank}, 8, {}, 2));
  std::uniform_real_distribution<float> uniform(0.002f, 0.01f);
  std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(static_cast<float>(s.head_dim)));
  for (int64_t i = 0; i < s.stats; ++i) {
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      for (int64_t j = 0; j < s.rank; ++j) {
        residual_scale.set({i, h, j}, uniform(rng));
        for (int64_t n = 0; n < s.head_dim; ++n) residual_basis.set({i, h, j, n}, normal(rng));
      }
    }
  }
}

inline KvCacheView TestCache::view(std::vector<uint8_t>& memory) {
  KvCacheView view;
  tensors_[0] = k_codes.view(memory.data());
  tensors_[1] = k_scales.view(memory.data());
  tensors_[2] = v.view(memory.data());
  tensors_[3] = delta_s.view(memory.data());
  tensors_[4] = k_residual.view(memory.data());
  tensors_[5] = k_first.view(memory.data());
  view.k_codes = &tensors_[0];
  view.k_scales = &tensors_[1];
  view.v = &tensors_[2];
  view.stats.k_mean = &k_mean.tensor;
  if (spec.group > 0) {
    view.delta_s = &tensors_[3];
    view.stats.q_mean = &q_mean.tensor;
  }
  if (spec.rank > 0) {
    view.k_residual = &tensors_[4];
    view.stats.residual_basis = &residual_basis.tensor;
    view.stats.residual_scale = &residual_scale.tensor;
  }
  if (spec.first_key) view.k_first = &tensors_[5];
  if (spec.scales) {
    view.stats.k_scale = &k_scale.tensor;
    view.stats.v_scale = &v_scale.tensor;
  }
  if (spec.stats_index) view.stats_index = &stats_index.tensor;
  return view;
}

inline AppendStats TestCache::stats_of(int64_t row, int64_t h) const {
  AppendStats stats;
  stats.k_mean = k_mean.row({row, h});
  if (spec.group > 0) {
    stats.q_mean = q_mean.row({row, h * spec.group});
    stats.q_mean_stride = (q_mean.field.byte({0, 1}) - q_mean.field.byte({0, 0})) / 4;
  }
  if (spec.rank > 0) {
    stats.residual_basis = residual_basis.row({row, h});
    stats.residual_basis_stride =
        (residual_basis.field.byte({0, 0, 1}) - residual_basis.field.byte({0, 0, 0})) / 4;
    stats.residual_scale = residual_scale.row({row, h});
  }
  if (spec.scales) {
    stats.k_scale = k_scale.get<float>({row, h});
    stats.v_scale = v_scale.get<float>({row, h});
  }
  return stats;
}

inline AppendTargets TestCache::targets_of(std::vector<uint8_t>& memory, int64_t slot,
                                           int64_t h) const {
  const int64_t page = slot / spec.page_size;
  const int64_t offset = slot % spec.page_size;
  uint8_t* base = memory.data();
  AppendTargets out;
  out.k_codes = base + k_codes.byte({page, h, offset});
  out.k_scales = reinterpret_cast<E4m3*>(base + k_scales.byte({page, h, offset}));
  out.v = reinterpret_cast<E4m3*>(base + v.byte({page, h, offset}));
  if (spec.group > 0) {
    out.delta_s = reinterpret_cast<Bf16*>(base + delta_s.byte({page, h * spec.group, offset}));
    out.delta_s_stride = (delta_s.byte({0, 1}) - delta_s.byte({0, 0})) / 2;
  }
  if (spec.rank > 0) {
    out.k_residual = reinterpret_cast<E4m3*>(base + k_residual.byte({page, h, offset}));
  }
  if (spec.first_key && offset == 0) {
    out.k_first = reinterpret_cast<Bf16*>(base + k_first.byte({page, h}));
  }
  return out;
}

inline void TestCache::append_reference(std::vector<uint8_t>& memory, const Owned& k_input,
                                        const Owned& v_input, int64_t token, int64_t slot,
                                        int64_t stats_row) const {
  const int64_t d = spec.head_dim;
  const AppendConfig config{static_cast<int>(d), static_cast<int>(spec.rank),
                            static_cast<int>(spec.group), spec.rule};
  for (int64_t h = 0; h < spec.kv_heads; ++h) {
    std::vector<float> k(d);
    std::vector<float> value(d);
    for (int64_t i = 0; i < d; ++i) {
      k[i] = read_float(k_input, {token, h, i});
      value[i] = read_float(v_input, {token, h, i});
    }
    append_token_reference(config, stats_of(stats_row, h), k.data(), value.data(),
                           targets_of(memory, slot, h));
  }
}

}  // namespace mpfa::internal
