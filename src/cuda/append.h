// append_kv() on a GPU.
#pragma once

#include "mpfa/cache.h"

namespace mpfa::internal {

// Errors: InvalidArgument, CudaError; before anything is launched.
void cuda_append_kv(const KvCacheView& cache, const DLTensor& k, const DLTensor& v,
                    const DLTensor& slot_mapping, const AppendParams& params, cudaStream_t stream);

}  // namespace mpfa::internal
