#include "kernels/device_case.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace mpfa::testing {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

// Bytes from a tensor's data pointer to the end of its last element and as many again as lie before
// its first.
size_t extent(const DLTensor& tensor) {
  int64_t last = 0;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return tensor.byte_offset;
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  const auto elements = static_cast<size_t>(last + 1);
  return 2 * tensor.byte_offset + elements * tensor.dtype.bits * tensor.dtype.lanes / 8;
}

}  // namespace

DeviceMemory::DeviceMemory(size_t bytes) {
  check(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<size_t>(bytes, 1)), "cudaMalloc");
}

DeviceMemory::~DeviceMemory() { static_cast<void>(cudaFree(data_)); }

const DLTensor* DeviceCopies::copy(const DLTensor* tensor) {
  if (tensor == nullptr) return nullptr;
  const size_t bytes = extent(*tensor);
  memory_.push_back(std::make_unique<DeviceMemory>(bytes));
  DLTensor& device = tensors_.emplace_back(*tensor);
  device.device = {kDLCUDA, 0};
  device.shape = numbers_.emplace_back(tensor->shape, tensor->shape + tensor->ndim).data();
  device.strides = numbers_.emplace_back(tensor->strides, tensor->strides + tensor->ndim).data();
  device.data = memory_.back()->data();
  copies_.push_back({&device, tensor->data, bytes});
  upload(&device);
  return &device;
}

KvCacheView DeviceCopies::copy(const KvCacheView& cache) {
  KvCacheView view;
  view.k_codes = copy(cache.k_codes);
  view.k_scales = copy(cache.k_scales);
  view.v = copy(cache.v);
  view.delta_s = copy(cache.delta_s);
  view.k_residual = copy(cache.k_residual);
  view.k_first = copy(cache.k_first);
  view.stats.k_mean = copy(cache.stats.k_mean);
  view.stats.q_mean = copy(cache.stats.q_mean);
  view.stats.residual_basis = copy(cache.stats.residual_basis);
  view.stats.residual_scale = copy(cache.stats.residual_scale);
  view.stats.k_scale = copy(cache.stats.k_scale);
  view.stats.v_scale = copy(cache.stats.v_scale);
  view.stats_index = copy(cache.stats_index);
  return view;
}

const DeviceCopies::Copy& DeviceCopies::find(const DLTensor* device) const {
  const auto found = std::find_if(copies_.begin(), copies_.end(),
                                  [&](const Copy& copy) { return copy.device == device; });
  if (found == copies_.end()) throw std::runtime_error("no copy of this tensor");
  return *found;
}

void DeviceCopies::download(const DLTensor* tensor) {
  const Copy& copy = find(tensor);
  check(cudaMemcpy(copy.host, tensor->data, copy.bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void DeviceCopies::upload(const DLTensor* tensor) {
  const Copy& copy = find(tensor);
  check(cudaMemcpy(tensor->data, copy.host, copy.bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

DeviceCase::DeviceCase(AttentionCase& host, PlanParams limits)
    : params(host.params()), host_(host) {
  const AttentionShape& shape = host.shape();
  out = copies_.copy(host.out().ptr());
  lse = copies_.copy(host.lse().ptr());
  q = copies_.copy(host.q().ptr());
  block_table = copies_.copy(host.block_table().ptr());
  seq_lens = copies_.copy(&host.seq_lens());
  cu_seqlens_q = copies_.copy(host.cu_seqlens_q());
  cache = copies_.copy(host.cache());
  params.sinks = copies_.copy(params.sinks);

  PlanParams p = limits;
  p.device = {kDLCUDA, 0};
  p.batch_size = std::max(p.batch_size, static_cast<int64_t>(shape.seqlens_k.size()));
  p.num_q_heads = host.num_q_heads();
  p.num_kv_heads = shape.num_kv_heads;
  p.head_dim = shape.head_dim;
  p.total_seqlen_q = std::max(p.total_seqlen_q, host.q().shape()[0]);
  for (const int32_t n : shape.seqlens_k) p.max_seqlen_k = std::max<int64_t>(p.max_seqlen_k, n);
  if (p.max_seqlen_q == 0) {
    for (const int32_t n : shape.seqlens_q) p.max_seqlen_q = std::max<int64_t>(p.max_seqlen_q, n);
  }
  if (p.kv_split_size == 0) p.kv_split_size = shape.kv_split_size;
  plan_ = mpfa::plan(p);

  // Whatever lies in a workspace before its first use must not matter.
  workspace_ = std::make_unique<DeviceMemory>(plan_.workspace_bytes);
  workspace_shape_ = plan_.workspace_bytes;
  check(cudaMemset(workspace_->data(), 0xA5, plan_.workspace_bytes), "cudaMemset");
  error_count_ = std::make_unique<DeviceMemory>(sizeof(int32_t));
  check(cudaMemset(error_count_->data(), 0, sizeof(int32_t)), "cudaMemset");
  error_tensor_ = {error_count_->data(), {kDLCUDA, 0}, 1, kI32, &error_shape_, nullptr, 0};
  params.error_count = &error_tensor_;
}

DLTensor DeviceCase::workspace_tensor() {
  return {workspace_->data(), {kDLCUDA, 0}, 1, kU8, &workspace_shape_, nullptr, 0};
}

void DeviceCase::enqueue_schedule(cudaStream_t stream) {
  schedule(cache, *block_table, *seq_lens, cu_seqlens_q, params, plan_, workspace_tensor(), stream);
}

void DeviceCase::enqueue(bool is_scheduled, cudaStream_t stream) {
  AttentionParams call = params;
  call.is_scheduled = is_scheduled;
  const DLTensor workspace = workspace_tensor();
  attention(*out, lse, *q, cache, *block_table, *seq_lens, cu_seqlens_q, call, plan_, &workspace,
            stream);
}

void DeviceCase::fetch() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  copies_.download(out);
  copies_.download(lse);
}

void DeviceCase::attend(bool is_scheduled, cudaStream_t stream) {
  host_.poison_results();
  copies_.upload(out);
  copies_.upload(lse);
  if (is_scheduled) enqueue_schedule(stream);
  enqueue(is_scheduled, stream);
  fetch();
}

int32_t DeviceCase::errors() const {
  int32_t count = 0;
  check(cudaMemcpy(&count, error_count_->data(), sizeof(count), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return count;
}

}  // namespace mpfa::testing
