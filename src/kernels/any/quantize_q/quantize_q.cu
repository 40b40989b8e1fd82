#include "kernels/any/quantize_q/kernel.cuh"
#include "kernels/any/quantize_q/quantize_q.h"

namespace mpfa::kernels {
namespace {

bool is_aligned(const void* pointer, const int64_t (&strides)[2], int64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0 &&
         strides[0] % bytes == 0 && strides[1] % bytes == 0;
}

bool is_valid(const QuantizeQParams& p) {
  const bool has_dots = p.rowbias != nullptr || p.residual != nullptr || p.first_key != nullptr;
  if (p.head_dim < kNvfp4BlockSize || p.head_dim > kMaxQueryDim ||
      p.head_dim % kNvfp4BlockSize != 0) {
    return false;
  }
  if (has_dots && (p.head_dim & (p.head_dim - 1)) != 0) return false;
  return p.num_tokens >= 0 && p.num_q_heads > 0 && p.num_kv_heads > 0 &&
         p.num_q_heads % p.num_kv_heads == 0 && p.sequences.batch_size > 0 && p.codes != nullptr &&
         p.scales != nullptr;
}

template <InputType kType>
cudaError_t launch_for(const QuantizeQParams& p, cudaStream_t stream) {
  int lanes = 1;
  while (lanes < 32 && lanes * kNvfp4BlockSize < p.head_dim) lanes *= 2;
  // Several turns where there is work for all SMs: they share the table of scales.
  constexpr int64_t kManyRows = 65536;
  const int64_t rows = p.num_tokens * p.num_q_heads;
  const int turns = rows >= kManyRows ? 4 : 1;
  const int64_t rows_per_cta = turns * (kQueryWarps * 32 / lanes);
  const int64_t ctas = (rows + rows_per_cta - 1) / rows_per_cta;
  if (ctas > INT32_MAX) return cudaErrorInvalidValue;
  const auto kernel = lanes * kNvfp4BlockSize < p.head_dim ? quantize_q_kernel<kType, 2>
                                                           : quantize_q_kernel<kType, 1>;
  kernel<<<static_cast<unsigned>(ctas), 32 * kQueryWarps, 0, stream>>>(p, lanes, turns);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_quantize_q(const QuantizeQParams& params, cudaStream_t stream) {
  if (!is_valid(params)) return cudaErrorInvalidValue;
  if (params.num_tokens == 0) return cudaSuccess;
  QuantizeQParams p = params;
  p.input_vectors = is_aligned(p.q, p.q_strides, 16);
  const int64_t mean_bytes[2] = {4 * p.q_mean_strides[0], 4 * p.q_mean_strides[1]};
  p.stats_vectors = is_aligned(p.q_mean, mean_bytes, 16);
  p.output_vectors = is_aligned(p.codes, p.codes_strides, 8) &&
                     (p.codes2 == nullptr || is_aligned(p.codes2, p.codes2_strides, 8));
  return launch_for_type(p.type, [&]<InputType kType>() { return launch_for<kType>(p, stream); });
}

}  // namespace mpfa::kernels
