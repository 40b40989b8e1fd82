// Attention over disjoint parts of the keys, merged: what merge_states() does on the CPU, in FP32.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "kernels/any/merge_states/params.h"

namespace mpfa::kernels {

// One launch; asynchronous, without a workspace, fit for graphs. Results do not depend on how many
// rows there are. cudaErrorInvalidValue for sizes below 0 and for no part or more than
// kMaxMergeParts.
cudaError_t launch_merge_states(const MergeParams& params, std::span<const MergeState> parts,
                                cudaStream_t stream);

}  // namespace mpfa::kernels
