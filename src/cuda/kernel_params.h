// From checked tensors to the members of kernels' parameters.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/cache_layout.h"
#include "kernels/any/append/params.h"

namespace mpfa::internal {

template <class T, int Rank>
std::byte* bytes_of(const Tensor<T, Rank>& tensor) {
  return reinterpret_cast<std::byte*>(tensor.at());
}

// Strides of [pages, heads, tokens, row].
template <class T>
kernels::PagedStrides strides_of(const Tensor<T, 4>& tensor) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  return {tensor.stride(0) * kSize, tensor.stride(1) * kSize, tensor.stride(2) * kSize};
}

// Of [pages, heads, inner]: a token of delta_s is an element; k_first has none.
inline kernels::PagedStrides strides_of(const Tensor<Bf16, 3>& tensor) {
  return {tensor.stride(0) * 2, tensor.stride(1) * 2, 2};
}

// The first strides, in elements; 0 where the tensor is absent.
template <class T, int Rank, size_t kCount>
void set_strides(int64_t (&strides)[kCount], const Tensor<T, Rank>& tensor) {
  static_assert(kCount <= static_cast<size_t>(Rank));
  for (size_t i = 0; i < kCount; ++i) strides[i] = tensor ? tensor.stride(static_cast<int>(i)) : 0;
}

// The same in bytes.
template <class T, int Rank, size_t kCount>
void set_byte_strides(int64_t (&strides)[kCount], const Tensor<T, Rank>& tensor) {
  set_strides(strides, tensor);
  for (int64_t& stride : strides) stride *= static_cast<int64_t>(sizeof(T));
}

// Of cu_seqlens [b + 1] and stats_index [b], each of which may be absent.
inline kernels::SequenceTable sequence_table(const Tensor<int32_t, 1>& cu_seqlens,
                                             const Tensor<int32_t, 1>& stats_index,
                                             int64_t num_stats) {
  kernels::SequenceTable table;
  if (cu_seqlens) {
    table.cu_seqlens = cu_seqlens.at();
    table.cu_seqlens_stride = cu_seqlens.stride(0);
    table.batch_size = static_cast<int32_t>(cu_seqlens.size(0) - 1);
  }
  if (stats_index) {
    table.stats_index = stats_index.at();
    table.stats_index_stride = stats_index.stride(0);
  }
  table.num_stats = static_cast<int32_t>(num_stats);
  return table;
}

// The cache's tensors but v, which one kernel reads and another writes.
template <class Params>
void set_pages(const CacheTensors& cache, Params& p) {
  p.k_codes = bytes_of(cache.k_codes);
  p.k_scales = bytes_of(cache.k_scales);
  p.delta_s = bytes_of(cache.delta_s);
  p.k_residual = bytes_of(cache.k_residual);
  p.k_first = bytes_of(cache.k_first);
  p.k_codes_strides = strides_of(cache.k_codes);
  p.k_scales_strides = strides_of(cache.k_scales);
  p.delta_s_strides = strides_of(cache.delta_s);
  p.k_residual_strides = strides_of(cache.k_residual);
  p.k_first_strides = strides_of(cache.k_first);
  p.num_pages = static_cast<decltype(p.num_pages)>(cache.num_pages);
  p.page_shift = std::countr_zero(static_cast<uint64_t>(cache.page_size));
  p.residual_rank = cache.residual_rank;
}

template <class Params>
void set_stats(const StatsTensors& stats, Params& p) {
  p.k_mean = stats.k_mean.at();
  p.q_mean = stats.q_mean.at();
  p.residual_basis = stats.residual_basis.at();
  p.residual_scale = stats.residual_scale.at();
  p.k_scale = stats.k_scale.at();
  p.v_scale = stats.v_scale.at();
  set_strides(p.k_mean_strides, stats.k_mean);
  set_strides(p.q_mean_strides, stats.q_mean);
  set_strides(p.residual_basis_strides, stats.residual_basis);
  set_strides(p.residual_scale_strides, stats.residual_scale);
  set_strides(p.k_scale_strides, stats.k_scale);
  set_strides(p.v_scale_strides, stats.v_scale);
}

inline kernels::InputType input_type(FloatType type) {
  switch (type) {
    case FloatType::kBf16:
      return kernels::InputType::kBf16;
    case FloatType::kFp16:
      return kernels::InputType::kFp16;
    default:
      return kernels::InputType::kFp32;
  }
}

}  // namespace mpfa::internal
