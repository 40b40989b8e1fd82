#include "bench/gpu_decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/pages.h"
#include "core/ceil_div.h"

namespace mpfa::tools {

using internal::check_cuda;

namespace {

GpuTensor stats_on_gpu(const DLTensor* host) { return host ? GpuTensor(*host) : GpuTensor(); }

// A tensor like the host's with its one page, for all pages.
GpuTensor pages_on_gpu(const DLTensor* host, int64_t num_pages) {
  if (host == nullptr) return {};
  std::vector<int64_t> shape(host->shape, host->shape + host->ndim);
  shape[0] = num_pages;
  return {host->dtype, shape};
}

template <typename T>
GpuTensor to_gpu(const std::vector<T>& values, std::initializer_list<int64_t> shape) {
  return GpuTensor(TensorView(values, shape));
}

GpuTensor random_on_gpu(DLDataType dtype, std::initializer_list<int64_t> shape, uint64_t seed) {
  const OwnedTensor host("random values", dtype, shape);
  fill_random(host, seed);
  return GpuTensor(host.dl());
}

bool is_finite(uint16_t bits, bool is_bf16) {
  const int exponent_mask = is_bf16 ? 0x7F80 : 0x7C00;
  return (bits & exponent_mask) != exponent_mask;
}

}  // namespace

GpuCache::GpuCache(const KvCacheConfig& config) {
  KvCacheConfig one_page = config;
  one_page.num_pages = 1;
  const KvCache host(one_page);
  const KvCacheView& view = host.view();
  k_codes_ = pages_on_gpu(view.k_codes, config.num_pages);
  k_scales_ = pages_on_gpu(view.k_scales, config.num_pages);
  v_ = pages_on_gpu(view.v, config.num_pages);
  delta_s_ = pages_on_gpu(view.delta_s, config.num_pages);
  k_residual_ = pages_on_gpu(view.k_residual, config.num_pages);
  k_first_ = pages_on_gpu(view.k_first, config.num_pages);
  k_mean_ = stats_on_gpu(view.stats.k_mean);
  q_mean_ = stats_on_gpu(view.stats.q_mean);
  residual_basis_ = stats_on_gpu(view.stats.residual_basis);
  residual_scale_ = stats_on_gpu(view.stats.residual_scale);
  k_scale_ = stats_on_gpu(view.stats.k_scale);
  v_scale_ = stats_on_gpu(view.stats.v_scale);
}

KvCacheView GpuCache::view() const {
  KvCacheView view;
  view.k_codes = k_codes_.get();
  view.k_scales = k_scales_.get();
  view.v = v_.get();
  view.delta_s = delta_s_.get();
  view.k_residual = k_residual_.get();
  view.k_first = k_first_.get();
  view.stats.k_mean = k_mean_.get();
  view.stats.q_mean = q_mean_.get();
  view.stats.residual_basis = residual_basis_.get();
  view.stats.residual_scale = residual_scale_.get();
  view.stats.k_scale = k_scale_.get();
  view.stats.v_scale = v_scale_.get();
  return view;
}

GpuDecode::GpuDecode(const DecodeCase& decode, int64_t num_caches, cudaStream_t stream)
    : decode_(decode), stream_(stream) {
  const KvCacheConfig config = cache_config(decode);
  make_tables(seqlens_k(decode), config.num_pages);
  make_queries();
  error_count_ = to_gpu(std::vector<int32_t>{0}, {1});

  const auto tokens = static_cast<int64_t>(slots_.size());
  const int64_t chunk = std::min(tokens, kChunkTokens);
  const DLDataType dtype = dtype_from_name(decode.options.dtype);
  const GpuTensor k = random_on_gpu(dtype, {chunk, config.num_kv_heads, config.head_dim}, 1);
  const GpuTensor v = random_on_gpu(dtype, {chunk, config.num_kv_heads, config.head_dim}, 2);
  const GpuTensor slots = to_gpu(slots_, {tokens});
  for (int64_t i = 0; i < num_caches; ++i) fill(caches_.emplace_back(config), k, v, slots);
  check_cuda(cudaStreamSynchronize(stream_), "append_kv");
}

void GpuDecode::make_tables(const std::vector<int32_t>& lengths, int64_t num_pages) {
  const auto batch_size = static_cast<int64_t>(lengths.size());
  const int64_t page_size = decode_.options.page_size;
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const int64_t max_pages = internal::ceil_div(longest, page_size);
  const std::vector<int32_t> pages = shuffled_pages(num_pages);
  std::vector<int32_t> table(static_cast<size_t>(batch_size * max_pages), 0);
  auto next = pages.begin();
  for (int64_t b = 0; b < batch_size; ++b) {
    const auto row = table.begin() + b * max_pages;
    const int32_t length = lengths[static_cast<size_t>(b)];
    const int64_t used = internal::ceil_div(length, page_size);
    std::copy_n(next, used, row);
    next += used;
    for (int64_t t = 0; t < length; ++t) {
      slots_.push_back(row[t / page_size] * page_size + t % page_size);
    }
  }
  block_table_ = to_gpu(table, {batch_size, max_pages});
  seq_lens_ = to_gpu(lengths, {batch_size});
}

void GpuDecode::make_queries() {
  const BenchShape& shape = decode_.shape;
  const int64_t rows = shape.batch_size * decode_.seqlen_q;
  const DLDataType dtype = dtype_from_name(decode_.options.dtype);
  q_ = random_on_gpu(dtype, {rows, shape.num_q_heads, shape.head_dim}, 3);
  const int64_t out_shape[] = {rows, shape.num_q_heads, shape.head_dim};
  out_ = GpuTensor(dtype, out_shape);
  if (decode_.seqlen_q > 1) {
    std::vector<int32_t> first_rows;
    for (int64_t b = 0; b <= shape.batch_size; ++b) {
      first_rows.push_back(static_cast<int32_t>(b * decode_.seqlen_q));
    }
    cu_seqlens_q_ = to_gpu(first_rows, {shape.batch_size + 1});
  }
  PlanParams params;
  params.device = q_.view().device;
  params.batch_size = shape.batch_size;
  params.num_q_heads = shape.num_q_heads;
  params.num_kv_heads = shape.num_kv_heads;
  params.head_dim = shape.head_dim;
  params.total_seqlen_q = rows;
  params.max_seqlen_q = decode_.seqlen_q;
  params.max_seqlen_k = std::max(shape.length, decode_.seqlen_q);
  params.kv_split_size = decode_.options.kv_split_size;
  plan_ = plan(params);
  const int64_t workspace_shape[] = {plan_.workspace_bytes};
  workspace_ = GpuTensor(internal::kUint8Type, workspace_shape);
}

void GpuDecode::fill(const GpuCache& cache, const GpuTensor& k, const GpuTensor& v,
                     const GpuTensor& slots) {
  const int64_t tokens = slots.view().size(0);
  const int64_t chunk = k.view().size(0);
  for (int64_t first = 0; first < tokens; first += chunk) {
    const int64_t count = std::min(chunk, tokens - first);
    append_kv(cache.view(), k.view().slice(0, 0, count), v.view().slice(0, 0, count),
              slots.view().slice(0, first, first + count), {}, stream_);
  }
}

AttentionParams GpuDecode::params() const {
  AttentionParams params;
  params.is_scheduled = true;
  params.error_count = error_count_.get();
  return params;
}

void GpuDecode::schedule() {
  mpfa::schedule(caches_[0].view(), block_table_.view(), seq_lens_.view(), cu_seqlens_q_.get(),
                 params(), plan_, workspace_.view(), stream_);
}

void GpuDecode::attend(int64_t cache) {
  attention(out_.view(), nullptr, q_.view(), caches_[static_cast<size_t>(cache)].view(),
            block_table_.view(), seq_lens_.view(), cu_seqlens_q_.get(), params(), plan_,
            workspace_.get(), stream_);
}

void GpuDecode::check_result() {
  check_cuda(cudaStreamSynchronize(stream_), "attention");
  int32_t errors = 0;
  check_cuda(cudaMemcpy(&errors, error_count_.data(), sizeof(errors), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  if (errors != 0) throw Error(fmt::format("{} lengths or pages were out of range", errors));
  std::vector<uint16_t> out(out_.bytes() / sizeof(uint16_t));
  check_cuda(cudaMemcpy(out.data(), out_.data(), out_.bytes(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  const bool is_bf16 = out_.view().dtype.code == kDLBfloat;
  const auto wrong = std::count_if(out.begin(), out.end(),
                                   [&](uint16_t bits) { return !is_finite(bits, is_bf16); });
  if (wrong != 0) {
    throw Error(fmt::format("{} of {} results are not finite", wrong, out.size()));
  }
}

}  // namespace mpfa::tools
