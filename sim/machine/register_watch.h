// Checks of the registers that wgmma uses (PTX ISA, "wgmma.fence", "wgmma.mma_async"): accumulators
// that are read or written, and fragments of A that are written, before wgmma.wait_group; and those
// that wgmma takes although they were written after the last wgmma.fence.
//
// A copy (mov) is not a write: its target counts as written when its source was. Compilers move
// copies and constants behind a fence that the source has after them, and ptxas follows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/machine/code.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {

enum class RegisterUseKind : uint8_t {
  kRead,
  kWrite,
  kCopy,         // written with what the instruction reads
  kAccumulator,  // of this wgmma
  kFragment,     // of its A
};

struct RegisterUse {
  uint32_t reg = 0;  // in WatchedRegisters::names
  RegisterUseKind kind = RegisterUseKind::kRead;
};

// What a function's instructions do to the registers that its wgmma use.
struct WatchedRegisters {
  std::vector<std::string> names;
  std::vector<RegisterUse> uses;
  std::vector<uint32_t> first_use;  // of each Insn, and the end
};

// What is known of them, in one frame of a warp.
struct RegisterWatch {
  // A wgmma that uses the register.
  struct User {
    const Insn* insn = nullptr;
    uint64_t number = 0;  // of its warpgroup
    uint64_t fences = 0;  // of the warp when it was issued
    uint64_t shape = 0;
  };
  struct State {
    uint64_t written = 0;  // 1 + the fences before the last write; 0: not written
    const Insn* writer = nullptr;
    User accumulates;  // the last one that has it as an accumulator
    User reads;        // likewise in A
  };
  std::vector<State> registers;
};

void watch_uses(Warp& warp, const WatchedRegisters& watched, const Insn& insn, size_t pc);

// To be called before instruction `pc` of the running split.
inline void watch_registers(Warp& warp, const WatchedRegisters& watched, const Insn& insn,
                            size_t pc) {
  if (watched.first_use[pc] != watched.first_use[pc + 1]) watch_uses(warp, watched, insn, pc);
}

// Those of the running split's frame; nullptr if they are not checked.
const WatchedRegisters* watched_registers(const Warp& warp);

// The warp issues `insn`, number `number` of its warpgroup. Accumulators of the same `shape` follow
// each other without a fence.
void watch_wgmma(Warp& warp, const Insn& insn, uint64_t number, uint64_t shape);

}  // namespace mpfa::sim
