// Attention for long queries on sm_90a, over a cache that unpack.h has unpacked.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/sm90/prefill/params.h"

namespace mpfa::kernels::sm90 {

inline constexpr int kPrefillRows = 128;  // query rows of a CTA

// What scores and probabilities are kept in.
enum class ScoreType { kFp32, kFp16 };

// head_dim 64 or 128. has_extra: softcap.
struct PrefillLaunch {
  int head_dim = 128;
  ScoreType scores = ScoreType::kFp32;
  bool has_extra = false;
};

cudaError_t launch_prefill(const PrefillLaunch& launch, const Sm90PrefillParams& params,
                           cudaStream_t stream);

}  // namespace mpfa::kernels::sm90
