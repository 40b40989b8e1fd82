// A small valid cache with every optional tensor, to be spoilt one tensor at a time.
#pragma once

#include <string_view>
#include <vector>

#include "mpfa/cache.h"
#include "unit/core/test_tensor.h"

namespace mpfa::core_test {

struct TestCache {
  static constexpr int64_t kPages = 3, kKvHeads = 2, kQHeads = 6, kStats = 2, kSequences = 4;

  explicit TestCache(int64_t head_dim = 64, int64_t page_size = 16, int64_t rank = 8)
      : k_codes(kUint8, {kPages, kKvHeads, page_size, head_dim / 2}),
        k_scales(kFloat8E4m3, {kPages, kKvHeads, page_size, head_dim / 16}),
        v(kFloat8E4m3, {kPages, kKvHeads, page_size, head_dim}),
        delta_s(kBfloat16, {kPages, kQHeads, page_size}),
        k_residual(kFloat8E4m3, {kPages, kKvHeads, page_size, rank}),
        k_first(kBfloat16, {kPages, kKvHeads, head_dim}),
        k_mean(kFloat32, {kStats, kKvHeads, head_dim}),
        q_mean(kFloat32, {kStats, kQHeads, head_dim}),
        residual_basis(kFloat32, {kStats, kKvHeads, rank, head_dim}),
        residual_scale(kFloat32, {kStats, kKvHeads, rank}),
        k_scale(kFloat32, {kStats, kKvHeads}),
        v_scale(kFloat32, {kStats, kKvHeads}),
        stats_index(kInt32, {kSequences}) {
    std::fill_n(residual_scale.data<float>(), kStats * kKvHeads * rank, 0.01f);
    k_scale.fill<float>({1.0f, 2.0f, 3.0f, 4.0f});
    v_scale.fill<float>({5.0f, 6.0f, 7.0f, 8.0f});
    stats_index.fill<int32_t>({0, 1, 1, 0});
    view.k_codes = k_codes.get();
    view.k_scales = k_scales.get();
    view.v = v.get();
    view.delta_s = delta_s.get();
    view.k_residual = k_residual.get();
    view.k_first = k_first.get();
    view.stats = {k_mean.get(),         q_mean.get(),  residual_basis.get(),
                  residual_scale.get(), k_scale.get(), v_scale.get()};
    view.stats_index = stats_index.get();
  }

  struct Named {
    std::string_view name;
    TestTensor* tensor;
  };
  std::vector<Named> all() {
    return {{"k_codes", &k_codes},
            {"k_scales", &k_scales},
            {"v", &v},
            {"delta_s", &delta_s},
            {"k_residual", &k_residual},
            {"k_first", &k_first},
            {"k_mean", &k_mean},
            {"q_mean", &q_mean},
            {"residual_basis", &residual_basis},
            {"residual_scale", &residual_scale},
            {"k_scale", &k_scale},
            {"v_scale", &v_scale},
            {"stats_index", &stats_index}};
  }

  TestTensor k_codes, k_scales, v, delta_s, k_residual, k_first;
  TestTensor k_mean, q_mean, residual_basis, residual_scale, k_scale, v_scale, stats_index;
  KvCacheView view;
};

}  // namespace mpfa::core_test
