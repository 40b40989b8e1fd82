#include "bench/gpu_decode.h"

#include <algorithm>

namespace mpfa::tools {

using internal::check_cuda;

GpuDecode::GpuDecode(const DecodeCase& decode, int64_t num_caches, cudaStream_t stream)
    : decode_(decode),
      stream_(stream),
      tables_(seqlens_k(decode), cache_config(decode).num_pages, decode.options.page_size) {
  const KvCacheConfig config = cache_config(decode);
  make_queries();
  error_count_ = to_gpu(std::vector<int32_t>{0}, {1});

  const auto tokens = static_cast<int64_t>(tables_.slots.size());
  const int64_t chunk = std::min(tokens, kChunkTokens);
  const DLDataType dtype = dtype_from_name(decode.options.dtype);
  const int64_t chunk_shape[] = {chunk, config.num_kv_heads, config.head_dim};
  const GpuTensor k = random_on_gpu(dtype, chunk_shape, 1);
  const GpuTensor v = random_on_gpu(dtype, chunk_shape, 2);
  const GpuTensor slots = to_gpu(tables_.slots, {tokens});
  for (int64_t i = 0; i < num_caches; ++i) {
    append_chunks(caches_.emplace_back(config), k, v, slots, stream_);
  }
  check_cuda(cudaStreamSynchronize(stream_), "append_kv");
}

void GpuDecode::make_queries() {
  const BenchShape& shape = decode_.shape;
  const int64_t rows = shape.batch_size * decode_.seqlen_q;
  const DLDataType dtype = dtype_from_name(decode_.options.dtype);
  const int64_t q_shape[] = {rows, shape.num_q_heads, shape.head_dim};
  q_ = random_on_gpu(dtype, q_shape, 3);
  out_ = GpuTensor(dtype, q_shape);
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

AttentionParams GpuDecode::params() const {
  AttentionParams params;
  params.is_scheduled = true;
  params.error_count = error_count_.get();
  return params;
}

void GpuDecode::schedule() {
  mpfa::schedule(caches_[0].view(), tables_.block_table.view(), tables_.seq_lens.view(),
                 cu_seqlens_q_.get(), params(), plan_, workspace_.view(), stream_);
}

void GpuDecode::attend(int64_t cache) {
  attention(out_.view(), nullptr, q_.view(), caches_[static_cast<size_t>(cache)].view(),
            tables_.block_table.view(), tables_.seq_lens.view(), cu_seqlens_q_.get(), params(),
            plan_, workspace_.get(), stream_);
}

void GpuDecode::check_result() {
  check_finite(out_, stream_);
  check_no_errors(error_count_);
}

}  // namespace mpfa::tools
