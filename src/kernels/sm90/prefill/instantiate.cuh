// The body of inst/*.cu: one kernel each, so that they compile in parallel.
#pragma once

#include "kernels/sm90/prefill/kernel.cuh"
#include "kernels/sm90/prefill/prefill.h"

namespace mpfa::kernels::sm90 {

template <class Config>
cudaError_t launch_prefill_as(const Sm90PrefillParams& params, cudaStream_t stream) {
  static_assert(Config::kRows == kPrefillRows);
  const cudaError_t error = cudaFuncSetAttribute(
      sm90_prefill_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::kBytes);
  if (error != cudaSuccess) return error;
  const int64_t tiles = int64_t{params.common.num_row_tiles} * params.num_heads;
  const auto ctas = static_cast<uint32_t>(tiles < params.num_ctas ? tiles : params.num_ctas);
  sm90_prefill_kernel<Config><<<ctas, Config::kThreads, Config::kBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace mpfa::kernels::sm90
