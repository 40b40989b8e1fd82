#include "sim/insn/shared_place.h"

#include <cstdio>
#include <string>

#include "mpfa/check.h"
#include "sim/machine/address.h"

namespace mpfa::sim {

SharedPlace shared_place(Warp& warp, const Insn& insn, int lane, MemorySpace space, AccessKind kind,
                         uint64_t address, uint64_t bytes, uint64_t alignment) {
  if (space == MemorySpace::kGeneric) {
    if (!in_shared_window(address)) {
      char text[64];
      std::snprintf(text, sizeof(text), "the address 0x%llx is not one of shared memory",
                    static_cast<unsigned long long>(address));
      warp.fail(FaultKind::kInvalidAddressSpace, insn, 1u << lane, text);
    }
    address -= kSharedWindow;
    space = MemorySpace::kSharedCluster;
  }
  resolve_range(warp, insn, lane, space, kind, address, bytes, alignment);
  return {.block = warp.block->cluster->blocks[address >> kSharedRankShift].get(),
          .offset = static_cast<uint32_t>(address & kSharedOffsetMask)};
}

void require_running(const Issuer& issuer, const Block& block, const char* what) {
  if (!block.finished() || !block.grid->checks.async) return;
  issuer.fail(FaultKind::kCheck,
              internal::str_cat(what, " the shared memory of block ", block.rank,
                                " of the cluster, whose threads have all ended: they must wait "
                                "for the copy first"));
}

}  // namespace mpfa::sim
