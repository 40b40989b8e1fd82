// From a lane's address to bytes of the host, with every check that hardware makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/machine/code.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {

// What an address is relative to.
enum class MemorySpace : uint8_t {
  kGeneric,
  kGlobal,         // and constant and kernel parameters
  kConst,          // as global, but not to be written
  kShared,         // the block's own
  kSharedCluster,  // any block's of the cluster
  kLocal,
};

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic };

// What an access orders (PTX ISA, "Memory Consistency Model"). Volatile ones are relaxed, and so is
// kAtomic where it says kWeak.
enum class MemoryOrder : uint8_t {
  kWeak,
  kRelaxed,
  kAcquire,
  kRelease,
  kBoth,  // acq_rel
};

// Copies what a store writes in `lane`.
using StoredValue = void (*)(const Warp& warp, const Insn& insn, int lane, std::byte* to);

// One access of a warp: `bytes` at each active lane's address.
struct Access {
  MemorySpace space = MemorySpace::kGeneric;
  AccessKind kind = AccessKind::kRead;
  uint32_t bytes = 0;                   // of a lane: 1, 2, 4, 8, 16 or 32
  const uint64_t* addresses = nullptr;  // 32
  MemoryOrder order = MemoryOrder::kWeak;
  bool may_be_unwritten = false;  // what it reads does not matter, or is checked otherwise
  StoredValue stored = nullptr;   // of a weak st
};

// The smallest and the largest of the active lanes' addresses.
struct AddressSpan {
  uint64_t low = UINT64_MAX;
  uint64_t high = 0;
  uint64_t all_bits = 0;  // or of the addresses
};

// Where all lanes' bytes lie, at `origin` plus each address, if they are all in one allocation or
// in the block's own shared memory and nothing is wrong; false leaves it to resolve(). `access` has
// no need of its addresses.
bool resolve_together(Warp& warp, const Access& access, const AddressSpan& span, uintptr_t& origin);

// Where each active lane's bytes lie. Throws Fault for an address outside every allocation, not
// aligned to `bytes`, or not writable.
void resolve(Warp& warp, const Insn& insn, const Access& access, std::byte** places);

// One address, of one lane, for `bytes` that need only `alignment`: bulk copies, barriers.
std::byte* resolve_range(Warp& warp, const Insn& insn, int lane, MemorySpace space, AccessKind kind,
                         uint64_t address, uint64_t bytes, uint64_t alignment);

}  // namespace mpfa::sim
