// How a tensor of the cache lies in memory.
#pragma once

#include <cstdint>

namespace mpfa::kernels {

// Bytes from one page, head and token to the next.
struct PagedStrides {
  int64_t page = 0;
  int64_t head = 0;
  int64_t token = 0;
};

}  // namespace mpfa::kernels
