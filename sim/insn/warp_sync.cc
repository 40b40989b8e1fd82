#include "sim/insn/warp_sync.h"

#include "sim/machine/block.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {

bool gather_members(Warp& warp, const Insn& insn, Slot members) {
  const uint32_t* masks = warp.source<uint32_t>(members);
  const uint32_t here = warp.mask;
  uint32_t ready = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((here >> lane & 1) == 0) continue;
    if ((masks[lane] >> lane & 1) == 0) {
      warp.fail(FaultKind::kCheck, insn, 1u << lane, "the member mask leaves out its own thread");
    }
    const bool all_here = (masks[lane] & warp.live() & ~here) == 0;
    ready |= static_cast<uint32_t>(all_here) << lane;
  }
  if (ready == 0) {
    warp.block_on("for other threads of its member mask");
    return false;
  }
  if (ready != here) warp.detach(here & ~ready, warp.split->pc);
  order_reads(warp, ready);
  return true;
}

bool gather_warp(Warp& warp) {
  if ((warp.live() & ~warp.mask) == 0) {
    order_reads(warp, warp.mask);
    return true;
  }
  warp.block_on("for the other threads of its warp (an .aligned instruction)");
  return false;
}

}  // namespace mpfa::sim
