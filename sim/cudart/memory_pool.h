// Keeps the accounts of memory pools.
#pragma once

namespace mpfa::sim::cudart {

// Tells the pool that memory came from, if it came from one, that it was freed.
void pool_freed(const void* address);

}  // namespace mpfa::sim::cudart
