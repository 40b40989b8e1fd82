// plan() on a GPU.
#pragma once

#include "mpfa/attention.h"

namespace mpfa::internal {

// `params` have been checked. Errors: InvalidArgument for what no kernel does, CudaError.
Plan cuda_plan(const PlanParams& params);

}  // namespace mpfa::internal
