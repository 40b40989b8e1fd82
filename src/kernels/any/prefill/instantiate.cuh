// The body of inst/*.cu: one kernel each, so that they compile in parallel.
#pragma once

#include "kernels/any/prefill/kernel.cuh"
#include "kernels/any/prefill/prefill.h"

namespace mpfa::kernels {

template <class Config>
cudaError_t launch_prefill_as(const PrefillParams& params, cudaStream_t stream) {
  static_assert(Config::kRows == kPrefillRows);
  const int shared =
      Config::shared_bytes(params.attention.delta_s != nullptr, params.attention.group_size);
  const cudaError_t error = cudaFuncSetAttribute(
      prefill_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (error != cudaSuccess) return error;
  const int64_t ctas = int64_t{params.num_row_tiles} * params.step.num_kv_heads;
  prefill_kernel<Config><<<static_cast<uint32_t>(ctas), Config::kThreads, shared, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace mpfa::kernels
