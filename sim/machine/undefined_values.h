// What registers hold of shared memory that nothing has written. Reading it is no fault: CUB's
// merge sort reads one element beyond a tile's last and does not use it, CUTLASS's main loops read
// ahead beyond the last tile. Using it is: as an address, for a branch, for a store to global
// memory.
//
// It is followed from register to register by what the PTX instructions say, for warps that hold
// any. A result is undefined where an operand is, but for what selects (selp, and and or of
// predicates, shfl). Stores to shared memory make what they write count as not written; what goes
// through local memory or a call's parameters is not followed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "sim/machine/code.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {

// For each byte of what an instruction reads or writes in a lane, the lanes where it is undefined.
using UndefinedBytes = std::array<uint32_t, kWarpSize>;

struct UndefinedValues {
  // By frame and place in Function::registers: the lanes.
  std::map<std::pair<const Frame*, int64_t>, uint32_t> registers;
  UndefinedBytes storing{};  // by the instruction that runs
  bool is_storing = false;
  std::string origin;  // tells of the first such read
};

// Whether `insn` reads shared memory into registers that are followed: ld and ldmatrix.
bool reads_to_registers(const Warp& warp, const Insn& insn);

// `insn`, which does so, reads what is undefined. `origin` tells it.
void load_undefined(Warp& warp, const Insn& insn, const UndefinedBytes& bytes,
                    const std::string& origin);

// To be called before `insn` runs for the lanes in warp.mask, and before its guard is applied,
// where warp.undefined is not nullptr. Throw Fault for a use.
void follow_undefined(Warp& warp, const Insn& insn);
void check_undefined_guard(const Warp& warp, const Insn& insn);

// Registers of one frame become those of another, which has other lanes.
void move_undefined(UndefinedValues& values, const Frame* from, const Frame* to);

}  // namespace mpfa::sim
