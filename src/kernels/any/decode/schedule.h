// Who computes what: the plan of one decode step, made on the device from lengths that only the
// device need know.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/any/decode/params.h"

namespace mpfa::kernels {

// max_pairs: tiles of query rows, of all sequences and KV heads, at most. max_parts: their parts,
// at most, where parts have a fixed size (ScheduleParams::split_tiles); 0 where they have none.
DecodeWorkspace layout_workspace(int num_ctas, int64_t max_pairs, int64_t max_parts,
                                 int rows_per_tile, int head_dim);

// Writes the records, segments and counters of the workspace.
cudaError_t launch_schedule(const ScheduleParams& params, cudaStream_t stream);

}  // namespace mpfa::kernels
