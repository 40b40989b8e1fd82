// Instructions that only tell hardware how to share itself out.
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/warp_sync.h"

namespace mpfa::sim {
namespace {

Step do_nothing(Warp& /*w*/, const Insn& /*i*/) { return Step::kNext; }

Step do_nothing_together(Warp& w, const Insn& /*i*/) {
  return gather_warp(w) ? Step::kNext : Step::kBlock;
}

}  // namespace

// Grids run one after the other: all that a grid depends on is over when it begins.
void decode_griddepcontrol(InsnDecoder& d) {
  if (d.take_one({"launch_dependents", "wait"}) < 0) d.fail("the action is missing");
  d.expect_no_more();
  d.emit(&do_nothing);
}

// Registers are never scarce here.
void decode_setmaxnreg(InsnDecoder& d) {
  constexpr int64_t kLeast = 24;
  constexpr int64_t kMost = 256;
  constexpr int64_t kStep = 8;
  if (d.take_one({"inc", "dec"}) < 0) d.fail("one of .inc and .dec is missing");
  if (!d.take("sync") || !d.take("aligned") || !d.take("u32"))
    d.fail(".sync.aligned.u32 is missing");
  d.expect_no_more();
  const int64_t registers = d.immediate(0);
  if (registers < kLeast || registers > kMost || registers % kStep != 0) {
    d.fail("the number of registers is " + std::to_string(registers) +
           "; it must be a multiple of 8 in 24 to 256");
  }
  d.emit(&do_nothing_together).splits = true;
}

void decode_clusterlaunchcontrol(InsnDecoder& d) {
  d.fail("clusterlaunchcontrol needs sm_100, and is not supported");
}

}  // namespace mpfa::sim
