#include "bench/gpu_prefill.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "bench/compute_times.h"
#include "bench/gpu.h"
#include "bench/gpu_cache.h"
#include "bench/sm_clock.h"

namespace mpfa::tools {

using internal::check_cuda;

namespace {

// What the calls need. They only enqueue their work.
class PrefillWork {
 public:
  PrefillWork(const PrefillCase& prefill, cudaStream_t stream);

  // The new tokens.
  void append();
  void attend();
  // Waits. Throws Error unless the last result is right as far as can be seen.
  void check_result() {
    check_finite(out_, stream_);
    check_no_errors(error_count_);
  }

 private:
  void fill_cache();
  void make_plan();

  const PrefillCase& prefill_;
  cudaStream_t stream_;
  GpuCache cache_;
  GpuTables tables_;
  int64_t rows_;            // of all sequences
  GpuTensor cu_seqlens_q_;  // [b + 1]
  GpuTensor q_, out_;       // [rows, Hq, d]
  GpuTensor k_, v_;         // [rows, Hkv, d]
  GpuTensor slots_;         // [rows]
  GpuTensor error_count_;   // [1]
  Plan plan_;
  GpuTensor workspace_;
};

PrefillWork::PrefillWork(const PrefillCase& prefill, cudaStream_t stream)
    : prefill_(prefill),
      stream_(stream),
      cache_(cache_config(prefill)),
      tables_(prefill.seqlens_k, cache_config(prefill).num_pages, prefill.options.page_size),
      rows_(std::accumulate(prefill.seqlens_q.begin(), prefill.seqlens_q.end(), int64_t{0})),
      error_count_(to_gpu(std::vector<int32_t>{0}, {1})) {
  const BenchShape& shape = prefill.shape;
  const DLDataType dtype = dtype_from_name(prefill.options.dtype);
  const int64_t q_shape[] = {rows_, shape.num_q_heads, shape.head_dim};
  const int64_t k_shape[] = {rows_, shape.num_kv_heads, shape.head_dim};
  q_ = random_on_gpu(dtype, q_shape, 3);
  out_ = GpuTensor(dtype, q_shape);
  k_ = random_on_gpu(dtype, k_shape, 1);
  v_ = random_on_gpu(dtype, k_shape, 2);
  std::vector<int32_t> first_rows = {0};
  std::vector<int64_t> new_slots;
  auto slot = tables_.slots.begin();
  for (size_t b = 0; b < prefill.seqlens_q.size(); ++b) {
    first_rows.push_back(first_rows.back() + prefill.seqlens_q[b]);
    slot += prefill.seqlens_k[b];
    new_slots.insert(new_slots.end(), slot - prefill.seqlens_q[b], slot);
  }
  cu_seqlens_q_ = to_gpu(first_rows, {shape.batch_size + 1});
  slots_ = to_gpu(new_slots, {rows_});
  fill_cache();
  make_plan();
}

void PrefillWork::fill_cache() {
  const auto tokens = static_cast<int64_t>(tables_.slots.size());
  append_chunks(cache_, k_, v_, to_gpu(tables_.slots, {tokens}), stream_);
  check_cuda(cudaStreamSynchronize(stream_), "append_kv");
}

void PrefillWork::make_plan() {
  const BenchShape& shape = prefill_.shape;
  PlanParams params;
  params.device = q_.view().device;
  params.batch_size = shape.batch_size;
  params.num_q_heads = shape.num_q_heads;
  params.num_kv_heads = shape.num_kv_heads;
  params.head_dim = shape.head_dim;
  params.total_seqlen_q = rows_;
  params.max_seqlen_q = *std::max_element(prefill_.seqlens_q.begin(), prefill_.seqlens_q.end());
  params.max_seqlen_k = shape.length;
  params.prefill_precision = prefill_.precision;
  plan_ = plan(params);
  const int64_t workspace_shape[] = {plan_.workspace_bytes};
  workspace_ = GpuTensor(internal::kUint8Type, workspace_shape);
}

void PrefillWork::append() {
  append_kv(cache_.view(), k_.view(), v_.view(), slots_.view(), {}, stream_);
}

void PrefillWork::attend() {
  AttentionParams params;
  params.causal = prefill_.is_causal;
  params.error_count = error_count_.get();
  attention(out_.view(), nullptr, q_.view(), cache_.view(), tables_.block_table.view(),
            tables_.seq_lens.view(), cu_seqlens_q_.get(), params, plan_, workspace_.get(), stream_);
}

}  // namespace

GpuPrefillTimes time_prefill(const PrefillCase& prefill, const GpuPrefillOptions& options) {
  const GpuStream stream;
  SmClock clock;
  GpuTimer timer(stream.get(), options.flush_bytes, &clock);
  PrefillWork work(prefill, stream.get());
  const GpuGraph both(stream.get(), [&] {
    work.append();
    work.attend();
  });
  const GpuGraph attention(stream.get(), [&] { work.attend(); });

  ComputeTimesOptions of_both{options.repeat, options.idle_s, options.sustained_s};
  ComputeTimesOptions of_attention{options.repeat, options.idle_s, 0.0};
  GpuPrefillTimes times;
  const ComputeTimes alone = time_compute(timer, attention, of_attention);
  times.attention = alone.call;
  times.attention_clock_mhz = alone.clock_mhz;
  const ComputeTimes all = time_compute(timer, both, of_both);
  times.call = all.call;
  times.clock_mhz = all.clock_mhz;
  times.sustained_s = all.sustained_s;
  times.sustained_clock_mhz = all.sustained_clock_mhz;
  work.check_result();
  return times;
}

}  // namespace mpfa::tools
