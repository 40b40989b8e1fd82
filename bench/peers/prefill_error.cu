#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <random>

#include "bench/gpu.h"
#include "prefill.h"

namespace mpfa::peers {

using internal::check_cuda;
using tools::allocate_gpu_memory;
using tools::GpuMemory;

namespace {

constexpr int kThreads = 256;
constexpr int kMaxHeadDim = 128;

// A query row, and what it sees. Rows count from the first of all sequences.
struct SampledRow {
  int64_t q_row = 0;
  int64_t first_key = 0;
  int64_t num_keys = 0;
  int q_head = 0;
};

// Squares of a row's difference and of its exact values, summed.
struct RowError {
  double difference = 0.0;
  double exact = 0.0;
};

// The value that thread 0 gets is combine() of all threads' values; every thread gets it.
template <typename Combine>
__device__ double block_reduce(double value, double* shared, Combine combine) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int n = kThreads / 2; n > 0; n /= 2) {
    if (threadIdx.x < n)
      shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + n]);
    __syncthreads();
  }
  const double result = shared[0];
  __syncthreads();
  return result;
}

// A block computes one row, plainly. scores: [rows, max_keys].
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    row_error_kernel(const SampledRow* rows, PrefillTensors tensors, int num_q_heads,
                     int num_kv_heads, int head_dim, double* scores, int64_t max_keys,
                     RowError* errors) {
  __shared__ double q[kMaxHeadDim];
  __shared__ double shared[kThreads];
  const SampledRow row = rows[blockIdx.x];
  const int64_t kv_head = row.q_head / (num_q_heads / num_kv_heads);
  const int64_t q_offset = (row.q_row * num_q_heads + row.q_head) * head_dim;
  const int64_t kv_step = static_cast<int64_t>(num_kv_heads) * head_dim;
  const int64_t kv_offset = row.first_key * kv_step + kv_head * head_dim;
  const auto* k = static_cast<const Element*>(tensors.k) + kv_offset;
  const auto* v = static_cast<const Element*>(tensors.v) + kv_offset;
  scores += blockIdx.x * max_keys;

  if (threadIdx.x < head_dim) {
    q[threadIdx.x] =
        static_cast<float>(static_cast<const Element*>(tensors.q)[q_offset + threadIdx.x]);
  }
  __syncthreads();
  double greatest = -HUGE_VAL;
  for (int64_t j = threadIdx.x; j < row.num_keys; j += kThreads) {
    double score = 0.0;
    for (int i = 0; i < head_dim; ++i) score += q[i] * static_cast<float>(k[j * kv_step + i]);
    scores[j] = score / sqrt(static_cast<double>(head_dim));
    greatest = fmax(greatest, scores[j]);
  }
  greatest = block_reduce(greatest, shared, [](double a, double b) { return fmax(a, b); });
  double sum = 0.0;
  for (int64_t j = threadIdx.x; j < row.num_keys; j += kThreads) {
    scores[j] = exp(scores[j] - greatest);
    sum += scores[j];
  }
  const auto add = [](double a, double b) { return a + b; };
  sum = block_reduce(sum, shared, add);

  // A thread adds up one dimension, over every kThreads / head_dim-th key.
  const int dim = threadIdx.x % head_dim;
  double partial = 0.0;
  for (int64_t j = threadIdx.x / head_dim; j < row.num_keys; j += kThreads / head_dim) {
    partial += scores[j] * static_cast<float>(v[j * kv_step + dim]);
  }
  shared[threadIdx.x] = partial;
  __syncthreads();
  double exact = 0.0;
  double difference = 0.0;
  if (threadIdx.x < head_dim) {
    for (int i = threadIdx.x; i < kThreads; i += head_dim) exact += shared[i];
    exact /= sum;
    const auto* out = static_cast<const __nv_bfloat16*>(tensors.out);
    difference = static_cast<float>(out[q_offset + dim]) - exact;
  }
  __syncthreads();
  difference = block_reduce(difference * difference, shared, add);
  exact = block_reduce(exact * exact, shared, add);
  if (threadIdx.x == 0) errors[blockIdx.x] = {difference, exact};
}

std::vector<SampledRow> sample_rows(const PrefillShape& shape, int num_rows) {
  std::mt19937_64 random(1);
  std::vector<SampledRow> rows;
  for (int i = 0; i < num_rows; ++i) {
    const auto sequence = random() % shape.seqlens_q.size();
    const int64_t seqlen_q = shape.seqlens_q[sequence];
    const int64_t seqlen_k = shape.seqlens_k[sequence];
    const auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(seqlen_q));
    SampledRow sampled;
    for (size_t before = 0; before < sequence; ++before) {
      sampled.q_row += shape.seqlens_q[before];
      sampled.first_key += shape.seqlens_k[before];
    }
    sampled.q_row += row;
    sampled.num_keys = shape.is_causal ? seqlen_k - seqlen_q + row + 1 : seqlen_k;
    sampled.q_head = static_cast<int>(random() % static_cast<uint64_t>(shape.num_q_heads));
    rows.push_back(sampled);
  }
  return rows;
}

}  // namespace

double error_of_out(const PrefillShape& shape, const PrefillTensors& tensors, int num_rows,
                    cudaStream_t stream) {
  const std::vector<SampledRow> rows = sample_rows(shape, num_rows);
  std::vector<RowError> errors(rows.size());
  const int64_t max_keys = shape.max_seqlen_k();
  const GpuMemory gpu_rows = allocate_gpu_memory(rows.size() * sizeof(SampledRow));
  const GpuMemory gpu_errors = allocate_gpu_memory(errors.size() * sizeof(RowError));
  const GpuMemory scores = allocate_gpu_memory(rows.size() * max_keys * sizeof(double));
  check_cuda(cudaMemcpyAsync(gpu_rows.get(), rows.data(), rows.size() * sizeof(SampledRow),
                             cudaMemcpyHostToDevice, stream),
             "cudaMemcpyAsync");
  const auto kernel =
      tensors.is_e4m3 ? row_error_kernel<__nv_fp8_e4m3> : row_error_kernel<__nv_bfloat16>;
  kernel<<<static_cast<unsigned>(rows.size()), kThreads, 0, stream>>>(
      static_cast<const SampledRow*>(gpu_rows.get()), tensors, shape.num_q_heads,
      shape.num_kv_heads, shape.head_dim, static_cast<double*>(scores.get()), max_keys,
      static_cast<RowError*>(gpu_errors.get()));
  check_cuda(cudaGetLastError(), "row_error_kernel");
  check_cuda(cudaMemcpyAsync(errors.data(), gpu_errors.get(), errors.size() * sizeof(RowError),
                             cudaMemcpyDeviceToHost, stream),
             "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "row_error_kernel");
  double sum = 0.0;
  for (const RowError& error : errors) sum += error.difference / error.exact;
  return std::sqrt(sum / static_cast<double>(errors.size()));
}

}  // namespace mpfa::peers
