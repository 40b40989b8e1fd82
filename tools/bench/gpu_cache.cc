#include "bench/gpu_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/pages.h"
#include "bench/workload.h"
#include "common/owned_tensor.h"
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

bool is_finite(uint16_t bits, bool is_bf16) {
  const int exponent_mask = is_bf16 ? 0x7F80 : 0x7C00;
  return (bits & exponent_mask) != exponent_mask;
}

}  // namespace

GpuTensor random_on_gpu(DLDataType dtype, std::span<const int64_t> shape, uint64_t seed) {
  constexpr int64_t kMostOnHost = int64_t{1} << 24;
  const int64_t rows = shape[0];
  GpuTensor all(dtype, shape);
  if (all.bytes() == 0) return all;
  const int64_t row_bytes = static_cast<int64_t>(all.bytes()) / rows;
  const int64_t chunk = std::clamp<int64_t>(kMostOnHost / row_bytes, 1, rows);
  const OwnedTensor host("random values", dtype, {chunk, row_bytes / (dtype.bits / 8)});
  fill_random(host, seed);
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    check_cuda(cudaMemcpy(static_cast<std::byte*>(all.data()) + first * row_bytes, host.dl().data,
                          static_cast<size_t>(count * row_bytes), cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  return all;
}

void check_no_errors(const GpuTensor& error_count) {
  int32_t errors = 0;
  check_cuda(cudaMemcpy(&errors, error_count.data(), sizeof(errors), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  if (errors != 0) throw Error(fmt::format("{} lengths or pages were out of range", errors));
}

void check_finite(const GpuTensor& tensor, cudaStream_t stream) {
  check_cuda(cudaStreamSynchronize(stream), "attention");
  std::vector<uint16_t> values(tensor.bytes() / sizeof(uint16_t));
  check_cuda(cudaMemcpy(values.data(), tensor.data(), tensor.bytes(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  const bool is_bf16 = tensor.view().dtype.code == kDLBfloat;
  const auto wrong = std::count_if(values.begin(), values.end(),
                                   [&](uint16_t bits) { return !is_finite(bits, is_bf16); });
  if (wrong != 0) {
    throw Error(fmt::format("{} of {} results are not finite", wrong, values.size()));
  }
}

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

GpuTables::GpuTables(const std::vector<int32_t>& lengths, int64_t num_pages, int64_t page_size) {
  const auto batch_size = static_cast<int64_t>(lengths.size());
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
      slots.push_back(row[t / page_size] * page_size + t % page_size);
    }
  }
  block_table = to_gpu(table, {batch_size, max_pages});
  seq_lens = to_gpu(lengths, {batch_size});
}

void append_chunks(const GpuCache& cache, const GpuTensor& k, const GpuTensor& v,
                   const GpuTensor& slots, cudaStream_t stream) {
  const int64_t tokens = slots.view().size(0);
  const int64_t chunk = k.view().size(0);
  for (int64_t first = 0; first < tokens; first += chunk) {
    const int64_t count = std::min(chunk, tokens - first);
    append_kv(cache.view(), k.view().slice(0, 0, count), v.view().slice(0, 0, count),
              slots.view().slice(0, first, first + count), {}, stream);
  }
}

}  // namespace mpfa::tools
