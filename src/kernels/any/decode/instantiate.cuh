// The body of inst/*.cu: one kernel each, so that they compile in parallel.
#pragma once

#include "kernels/any/decode/decode.h"
#include "kernels/any/decode/kernel.cuh"

namespace mpfa::kernels {

template <class Config>
cudaError_t launch_decode_as(int warps, const DecodeParams& params, cudaStream_t stream) {
  const SharedMemoryPlan plan =
      plan_shared_memory<Config>(warps, params.residual_rank, params.delta_s != nullptr);
  const cudaError_t error = cudaFuncSetAttribute(
      decode_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.total);
  if (error != cudaSuccess) return error;
  DecodeParams p = params;
  p.needs_rowbias = p.lse != nullptr || p.sinks != nullptr || p.softcap > 0;
  p.has_k_scale = p.k_scale != nullptr;
  p.has_k_first = p.k_first != nullptr;
  p.has_v_scale = p.v_scale != nullptr;
  decode_kernel<Config><<<p.layout.num_ctas, warps * 32, plan.total, stream>>>(p, plan);
  return cudaGetLastError();
}

}  // namespace mpfa::kernels
