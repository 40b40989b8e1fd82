#include "sim/machine/memory_access.h"

#include <cstdio>
#include <string>

#include "mpfa/check.h"
#include "sim/machine/address.h"
#include "sim/machine/block.h"

namespace mpfa::sim {
namespace {

std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
      return "read of ";
    case AccessKind::kWrite:
      return "write of ";
    default:
      return "atomic operation on ";
  }
}

// One lane's access, for messages.
struct Lane {
  Warp& warp;
  const Insn& insn;
  int lane;
  AccessKind kind;
  uint64_t address;
  uint64_t bytes;

  [[noreturn]] void fail(FaultKind fault, const std::string& why) const {
    warp.fail(fault, insn, 1u << lane,
              internal::str_cat(verb(kind), bytes, " bytes at ", hexadecimal(address), ": ", why));
  }
};

[[noreturn]] void fail_global(const Lane& lane) {
  const auto near = lane.warp.block->grid->memory->nearest_below(lane.address);
  if (!near) lane.fail(FaultKind::kIllegalAddress, "no allocation is there");
  const uint64_t end = near->address + near->bytes;
  lane.fail(FaultKind::kIllegalAddress,
            internal::str_cat("outside every allocation; the nearest below is ",
                              hexadecimal(near->address), ", ", near->bytes, " bytes, which ends ",
                              lane.address + lane.bytes - end, " bytes before the access's end"));
}

std::byte* global(const Lane& at) {
  Warp& warp = at.warp;
  const GlobalMemory& memory = *warp.block->grid->memory;
  if (!warp.allocation.contains(at.address, at.bytes) ||
      warp.allocation_generation != memory.generation()) {
    const uint64_t generation = memory.generation();
    const auto found = memory.find(at.address);
    if (!found || !found->contains(at.address, at.bytes)) fail_global(at);
    warp.allocation = *found;
    warp.allocation_generation = generation;
  }
  if (warp.allocation.is_constant && at.kind != AccessKind::kRead) {
    at.fail(FaultKind::kIllegalAddress, "constant memory cannot be written");
  }
  return reinterpret_cast<std::byte*>(at.address);
}

std::byte* shared(const Lane& at, uint64_t address, bool whole_cluster) {
  const Block* block = at.warp.block;
  const uint64_t rank = address >> kSharedRankShift;
  const uint64_t offset = address & kSharedOffsetMask;
  if (rank != block->rank) {
    const auto& blocks = block->cluster->blocks;
    if (!whole_cluster) {
      at.fail(FaultKind::kIllegalAddress,
              "not in the block's own shared memory (.shared::cluster reaches the others')");
    }
    if (rank >= blocks.size()) {
      at.fail(FaultKind::kIllegalAddress,
              internal::str_cat("block ", rank, " of a cluster of ", blocks.size()));
    }
    block = blocks[rank].get();
    if (block->finished()) {
      at.fail(FaultKind::kIllegalAddress,
              internal::str_cat("shared memory of block ", rank,
                                " of the cluster, which has ended: a barrier.cluster is missing"));
    }
  }
  if (offset + at.bytes > block->shared.size()) {
    at.fail(FaultKind::kIllegalAddress,
            internal::str_cat("shared memory ends at ", hexadecimal(block->shared.size()),
                              " (static and dynamic, from 0)"));
  }
  return const_cast<std::byte*>(block->shared.data()) + offset;
}

std::byte* local(const Lane& at, uint64_t address) {
  if (address + at.bytes > at.warp.local_stride || address + at.bytes < address) {
    at.fail(FaultKind::kIllegalAddress, internal::str_cat("outside the thread's local memory of ",
                                                          at.warp.local_stride, " bytes"));
  }
  return at.warp.local(at.lane, address);
}

std::byte* resolve_lane(const Lane& at, MemorySpace space, uint64_t alignment) {
  if (at.address % alignment != 0) {
    at.fail(FaultKind::kMisalignedAddress, internal::str_cat("must be a multiple of ", alignment));
  }
  switch (space) {
    case MemorySpace::kShared:
      return shared(at, at.address, false);
    case MemorySpace::kSharedCluster:
      return shared(at, at.address, true);
    case MemorySpace::kLocal:
      return local(at, at.address);
    case MemorySpace::kGlobal:
    case MemorySpace::kConst:
      return global(at);
    default:
      break;
  }
  if (in_shared_window(at.address)) return shared(at, at.address - kSharedWindow, true);
  if (in_local_window(at.address)) return local(at, at.address - kLocalWindow);
  return global(at);
}

AddressSpan span_of(const uint64_t* addresses, uint32_t mask) {
  AddressSpan span;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const bool active = (mask >> lane & 1) != 0;
    const uint64_t address = addresses[lane];
    span.low = active && address < span.low ? address : span.low;
    span.high = active && address > span.high ? address : span.high;
    span.all_bits |= active ? address : 0;
  }
  return span;
}

bool find_together(const Warp& warp, const Access& access, const AddressSpan& span,
                   uintptr_t& origin) {
  if (span.all_bits % access.bytes != 0) return false;
  const bool is_shared =
      access.space == MemorySpace::kShared || access.space == MemorySpace::kSharedCluster;
  if (is_shared || (access.space == MemorySpace::kGeneric && in_shared_window(span.low))) {
    Block* block = warp.block;
    const uint64_t base = block->shared_base() + (is_shared ? 0 : kSharedWindow);
    if (span.low < base || span.high + access.bytes > base + block->shared.size()) return false;
    origin = reinterpret_cast<uintptr_t>(block->shared.data()) - base;
    return true;
  }
  if (access.space == MemorySpace::kLocal) return false;
  if (warp.allocation_generation != warp.block->grid->memory->generation()) return false;
  if (!warp.allocation.contains(span.low, span.high - span.low + access.bytes)) return false;
  if (warp.allocation.is_constant && access.kind != AccessKind::kRead) return false;
  origin = 0;
  return true;
}

// How much an access tells of a loop that waits: most read a flag, some use atomics.
constexpr uint32_t kReadWeight = 1u << 8;
constexpr uint32_t kAtomicWeight = 1u << 4;

// Whether other clusters may wait for the access, or it for them.
bool is_seen_by_others(const Access& access) {
  if (access.kind != AccessKind::kAtomic && access.order == MemoryOrder::kWeak) return false;
  return access.space == MemorySpace::kGlobal || access.space == MemorySpace::kGeneric;
}

void meet_others(Warp& warp, const Access& access) {
  Cluster& cluster = *warp.block->cluster;
  cluster.await_turn();
  cluster.count_poll(access.kind == AccessKind::kRead ? kReadWeight : kAtomicWeight);
}

}  // namespace

bool resolve_together(Warp& warp, const Access& access, const AddressSpan& span,
                      uintptr_t& origin) {
  if (!find_together(warp, access, span, origin)) return false;
  if (is_seen_by_others(access)) meet_others(warp, access);
  return true;
}

void resolve(Warp& warp, const Insn& insn, const Access& access, std::byte** places) {
  if (is_seen_by_others(access)) meet_others(warp, access);
  uintptr_t origin = 0;
  if (find_together(warp, access, span_of(access.addresses, warp.mask), origin)) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      places[lane] = reinterpret_cast<std::byte*>(origin + access.addresses[lane]);
    }
    return;
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    places[lane] =
        resolve_lane({warp, insn, lane, access.kind, access.addresses[lane], access.bytes},
                     access.space, access.bytes);
  }
}

std::byte* resolve_range(Warp& warp, const Insn& insn, int lane, MemorySpace space, AccessKind kind,
                         uint64_t address, uint64_t bytes, uint64_t alignment) {
  return resolve_lane({warp, insn, lane, kind, address, bytes}, space, alignment);
}

}  // namespace mpfa::sim
