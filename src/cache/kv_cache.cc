#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/allocated_tensor.h"
#include "core/shapes.h"
#include "core/tensor.h"
#include "cuda/memory.h"
#include "mpfa/cache.h"
#include "mpfa/check.h"

namespace mpfa {
namespace {

using internal::AllocatedTensor;

void check_head_dim(int64_t head_dim) {
  MPFA_CHECK(internal::is_head_dim(head_dim), "head_dim = ", head_dim, ": must be ",
             internal::alternatives(internal::kHeadDims));
}

void check_residual_rank(int64_t rank) {
  MPFA_CHECK(rank == 0 || internal::is_residual_rank(rank), "residual_rank = ", rank,
             ": must be 0, ", internal::alternatives(internal::kResidualRanks));
}

// num_q_heads sizes delta_s and q_mean only; without them 0 means that it is not known.
void check_heads(const KvCacheConfig& c) {
  MPFA_CHECK(c.num_kv_heads >= 1, "num_kv_heads = ", c.num_kv_heads, ": must be at least 1");
  MPFA_CHECK(c.num_q_heads >= (c.delta_s ? 1 : 0) && c.num_q_heads % c.num_kv_heads == 0,
             "num_q_heads = ", c.num_q_heads, ": must be a multiple of num_kv_heads, ",
             c.num_kv_heads, c.delta_s ? ", above 0" : "");
}

void check_device(const DLDevice& device) {
  MPFA_CHECK(device.device_type == kDLCPU || device.device_type == kDLCUDA,
             "device.device_type = ", static_cast<int>(device.device_type),
             ": must be 1 (CPU) or 2 (CUDA), DLPack's numbers");
}

void check_config(const KvCacheConfig& c) {
  // block_table holds page numbers as int32.
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max();
  MPFA_CHECK(c.num_pages >= 1 && c.num_pages <= kMaxPages, "num_pages = ", c.num_pages,
             ": must be 1 to ", kMaxPages);
  MPFA_CHECK(internal::is_page_size(c.page_size), "page_size = ", c.page_size, ": must be ",
             internal::alternatives(internal::kPageSizes));
  check_heads(c);
  check_head_dim(c.head_dim);
  check_residual_rank(c.residual_rank);
  MPFA_CHECK(c.num_stats >= 1, "num_stats = ", c.num_stats, ": must be at least 1");
  MPFA_CHECK(c.batch_size >= 0, "batch_size = ", c.batch_size, ": must not be negative");
  MPFA_CHECK(c.max_pages_per_seq >= 0, "max_pages_per_seq = ", c.max_pages_per_seq,
             ": must not be negative");
  MPFA_CHECK(c.max_pages_per_seq == 0 || c.batch_size > 0,
             "max_pages_per_seq = ", c.max_pages_per_seq, ": must be 0 where batch_size is 0");
  check_device(c.device);
}

void fill_with_ones(const AllocatedTensor& tensor) {
  std::fill_n(tensor.data<float>(), tensor.bytes() / sizeof(float), 1.0f);
}

// Row j of every head's basis becomes the j-th unit vector: orthonormal whatever r and d are.
void fill_with_unit_vectors(const AllocatedTensor& basis) {
  const DLTensor& t = *basis.get();
  const int64_t rank = t.shape[2];
  const int64_t head_dim = t.shape[3];
  for (int64_t row = 0; row < t.shape[0] * t.shape[1] * rank; ++row) {
    basis.data<float>()[row * head_dim + row % rank] = 1.0f;
  }
}

// Fills a tensor of FP32 where only a GPU can write, too.
void fill(const AllocatedTensor& tensor, std::string_view name,
          void (*fill_on_host)(const AllocatedTensor&)) {
  const DLTensor& t = *tensor.get();
  if (t.device.device_type != kDLCUDA) return fill_on_host(tensor);
  AllocatedTensor values;
  values.allocate(name, t.dtype, {t.shape, t.shape + t.ndim});
  fill_on_host(values);
  internal::cuda_upload(values.data<void>(), tensor.bytes(), t);
}

}  // namespace

double bytes_per_token_and_kv_head(const KvCacheConfig& config) {
  check_heads(config);
  check_head_dim(config.head_dim);
  check_residual_rank(config.residual_rank);
  const int64_t d = config.head_dim;
  const int64_t codes_scales_v = d / 2 + d / kNvfp4BlockSize + d;
  const int64_t delta_s = config.delta_s ? 2 * (config.num_q_heads / config.num_kv_heads) : 0;
  return static_cast<double>(codes_scales_v + delta_s + config.residual_rank);
}

struct KvCache::Impl {
  explicit Impl(const KvCacheConfig& c) : config(c) {
    check_config(c);
    allocate_pages();
    allocate_stats();
    allocate_tables();
    set_view();
  }

  void allocate(AllocatedTensor& tensor, std::string_view name, DLDataType dtype,
                std::vector<int64_t> shape) const {
    tensor.allocate(name, dtype, std::move(shape), config.device);
  }

  void allocate_pages() {
    const KvCacheConfig& c = config;
    const int64_t d = c.head_dim;
    allocate(k_codes, "k_codes", internal::kUint8Type,
             {c.num_pages, c.num_kv_heads, c.page_size, d / 2});
    allocate(k_scales, "k_scales", internal::kE4m3Type,
             {c.num_pages, c.num_kv_heads, c.page_size, d / kNvfp4BlockSize});
    allocate(v, "v", internal::kE4m3Type, {c.num_pages, c.num_kv_heads, c.page_size, d});
    if (c.delta_s) {
      allocate(delta_s, "delta_s", internal::kBf16Type, {c.num_pages, c.num_q_heads, c.page_size});
    }
    if (c.residual_rank > 0) {
      allocate(k_residual, "k_residual", internal::kE4m3Type,
               {c.num_pages, c.num_kv_heads, c.page_size, c.residual_rank});
    }
    if (c.first_key) {
      allocate(k_first, "k_first", internal::kBf16Type, {c.num_pages, c.num_kv_heads, d});
    }
  }

  void allocate_stats() {
    const KvCacheConfig& c = config;
    const int64_t d = c.head_dim;
    const DLDataType f32 = internal::kFloat32Type;
    allocate(k_mean, "k_mean", f32, {c.num_stats, c.num_kv_heads, d});
    if (c.delta_s) allocate(q_mean, "q_mean", f32, {c.num_stats, c.num_q_heads, d});
    if (c.residual_rank > 0) {
      const int64_t r = c.residual_rank;
      allocate(residual_basis, "residual_basis", f32, {c.num_stats, c.num_kv_heads, r, d});
      allocate(residual_scale, "residual_scale", f32, {c.num_stats, c.num_kv_heads, r});
      fill(residual_basis, "residual_basis", fill_with_unit_vectors);
      fill(residual_scale, "residual_scale", fill_with_ones);
    }
    allocate(k_scale, "k_scale", f32, {c.num_stats, c.num_kv_heads});
    allocate(v_scale, "v_scale", f32, {c.num_stats, c.num_kv_heads});
    fill(k_scale, "k_scale", fill_with_ones);
    fill(v_scale, "v_scale", fill_with_ones);
  }

  void allocate_tables() {
    const KvCacheConfig& c = config;
    if (c.batch_size == 0) return;
    allocate(stats_index, "stats_index", internal::kInt32Type, {c.batch_size});
    if (c.max_pages_per_seq == 0) return;
    allocate(block_table, "block_table", internal::kInt32Type, {c.batch_size, c.max_pages_per_seq});
    allocate(seq_lens, "seq_lens", internal::kInt32Type, {c.batch_size});
  }

  void set_view() {
    view.k_codes = k_codes.get();
    view.k_scales = k_scales.get();
    view.v = v.get();
    view.delta_s = delta_s.get();
    view.k_residual = k_residual.get();
    view.k_first = k_first.get();
    view.stats.k_mean = k_mean.get();
    view.stats.q_mean = q_mean.get();
    view.stats.residual_basis = residual_basis.get();
    view.stats.residual_scale = residual_scale.get();
    view.stats.k_scale = k_scale.get();
    view.stats.v_scale = v_scale.get();
    view.stats_index = stats_index.get();
  }

  KvCacheConfig config;
  AllocatedTensor k_codes, k_scales, v, delta_s, k_residual, k_first;
  AllocatedTensor k_mean, q_mean, residual_basis, residual_scale, k_scale, v_scale;
  AllocatedTensor stats_index, block_table, seq_lens;
  KvCacheView view;
};

KvCache::KvCache(const KvCacheConfig& config) : impl_(std::make_unique<Impl>(config)) {}
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;
KvCache::~KvCache() = default;

const KvCacheConfig& KvCache::config() const { return impl_->config; }
const KvCacheView& KvCache::view() const { return impl_->view; }
const DLTensor* KvCache::block_table() const { return impl_->block_table.get(); }
const DLTensor* KvCache::seq_lens() const { return impl_->seq_lens.get(); }

int64_t KvCache::bytes() const {
  const Impl& i = *impl_;
  return i.k_codes.bytes() + i.k_scales.bytes() + i.v.bytes() + i.delta_s.bytes() +
         i.k_residual.bytes() + i.k_first.bytes();
}

}  // namespace mpfa
