// Copies to and from device variables.
#pragma once

#include <cuda_runtime_api.h>

#include "sim/cudart/copy.h"

namespace mpfa::sim::cudart {

// `bytes` bytes of the variable from `offset`. Throw ApiError if they leave it.
Copy copy_to_symbol(const void* symbol, const void* src, size_t bytes, size_t offset,
                    cudaMemcpyKind kind);
Copy copy_from_symbol(void* dst, const void* symbol, size_t bytes, size_t offset,
                      cudaMemcpyKind kind);

}  // namespace mpfa::sim::cudart
