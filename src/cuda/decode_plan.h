// How a plan's calls are launched: what the host decides, from the plan's maxima alone.
#pragma once

#include "kernels/any/decode/decode.h"
#include "kernels/any/decode/params.h"
#include "mpfa/attention.h"

namespace mpfa::internal {

struct DecodePlan {
  int row_tiles = 1;        // of 8 query rows each
  int32_t split_tiles = 0;  // > 0: parts of a fixed size
  kernels::DecodeWorkspace layout = {};
};

// Rows of q of one sequence, at most.
int64_t max_rows(const PlanParams& params);
// Tiles of rows of all sequences, one KV head: each sequence may have one that is not full.
int64_t max_row_tiles(const PlanParams& params, int64_t rows_per_tile);

// Whether the kernel for long queries takes a plan's calls that have cu_seqlens_q: where the plan
// allows sequences more rows than the decode kernel is made for. The rows of one call do not count,
// so that results do not depend on a sequence's neighbours.
bool is_for_prefill(const PlanParams& params, bool has_delta);

// Errors: InvalidArgument where the plan's maxima are too large for the kernels.
DecodePlan make_decode_plan(const PlanParams& params);

// Where the workspace of prefill begins, behind decode's.
int64_t prefill_workspace_begin(const DecodePlan& plan);

// The number of warps of a call's launch, whose other members are set: what fits shared memory.
int choose_warps(const kernels::DecodeLaunch& launch, int rank, bool has_delta, int shared_bytes);

}  // namespace mpfa::internal
