// Cache files of tensors on a GPU.
#pragma once

#include "mpfa/cache.h"

namespace mpfa::internal {

// Checks all but values: one GPU, shapes, strides and types. Errors: InvalidArgument.
void cuda_check_cache_file(const KvCacheFile& file);

}  // namespace mpfa::internal
