// Operands that must lie in shared memory: barriers, and what asynchronous copies read and write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/machine/block.h"
#include "sim/machine/issuer.h"
#include "sim/machine/memory_access.h"

namespace mpfa::sim {

// A place in a block's shared memory.
struct SharedPlace {
  Block* block = nullptr;
  uint32_t offset = 0;

  std::byte* bytes() const { return block->shared.data() + offset; }
  uint32_t address() const { return block->shared_base() + offset; }
};

// Where `bytes` at a lane's `address` lie. `space` is kShared, kSharedCluster or kGeneric; throws
// Fault for a generic address elsewhere, and as resolve_range() does.
SharedPlace shared_place(Warp& warp, const Insn& insn, int lane, MemorySpace space, AccessKind kind,
                         uint64_t address, uint64_t bytes, uint64_t alignment);

// For asynchronous operations when they touch a block's shared memory: throws Fault if the block
// has ended, which gives its shared memory away.
void require_running(const Issuer& issuer, const Block& block, const char* what);

}  // namespace mpfa::sim
