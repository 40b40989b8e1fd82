// Attention for long queries on any GPU: one launch for all sequences of a batch, whatever mixture
// of lengths they have.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/any/prefill/params.h"

namespace mpfa::kernels {

// head_dim 64 or 128. has_extra: delta_s or softcap.
struct PrefillLaunch {
  int head_dim = 128;
  bool has_extra = false;
};

inline constexpr int kPrefillRows = 128;  // query rows of a CTA

int prefill_shared_bytes(const PrefillLaunch& launch, bool has_delta, int group_size);
cudaError_t launch_prefill(const PrefillLaunch& launch, const PrefillParams& params,
                           cudaStream_t stream);

}  // namespace mpfa::kernels
