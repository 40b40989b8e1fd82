// The executable form of PTX: what the decoder makes and warps run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/ptx/module.h"

namespace mpfa::sim {

struct Warp;
struct Insn;
struct WatchedRegisters;

constexpr int kWarpSize = 32;
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// Where an operand's 32 lanes lie, in bytes: in the frame's registers, or, with the top bit set, in
// the function's pool of constants. A register of n bits takes 32 * n / 8 bytes, lane after lane; a
// predicate takes 4, a bit a lane.
using Slot = uint32_t;
constexpr Slot kPoolBit = 0x80000000u;
constexpr Slot kNoSlot = 0xFFFFFFFFu;

// What a warp does after an instruction.
enum class Step : uint8_t {
  kNext,   // goes on behind it
  kJump,   // the handler has moved or ended the split
  kBlock,  // waits: the same instruction again when something has changed
  kYield,  // goes on behind it, but others may go first (nanosleep, a failed try_wait)
};

// Runs an instruction for the lanes in warp.mask (never 0).
using Handler = Step (*)(Warp& warp, const Insn& insn);

// What does not fit in an Insn; each family derives its own.
struct InsnDetail {
  InsnDetail() = default;
  InsnDetail(const InsnDetail&) = default;
  InsnDetail& operator=(const InsnDetail&) = default;
  virtual ~InsnDetail() = default;
};

struct Insn {
  Handler run = nullptr;
  Slot guard = kNoSlot;
  bool guard_negated = false;
  // Lanes that the guard excludes go on alone: for what moves, ends or blocks lanes.
  bool splits = false;
  uint8_t u8 = 0;  // for the family's use
  Slot dst = kNoSlot;
  Slot a = kNoSlot;
  Slot b = kNoSlot;
  Slot c = kNoSlot;
  int64_t imm = 0;
  const InsnDetail* detail = nullptr;
  uint32_t source = 0;  // index into Function::instructions
};

// A function, decoded for one kernel.
// A place of a frame and the bits of a lane there; 1: a word has all lanes' bits.
struct PlacedSlot {
  Slot slot;
  int bits;
};

struct FunctionCode {
  const Function* function = nullptr;
  std::vector<Insn> insns;
  uint32_t first_insn = 0;  // the kernel's functions counted through: with it a number names one
  std::vector<std::unique_ptr<InsnDetail>> details;
  std::vector<std::byte> pool;  // aligned by its owner's copy: see pool_data()
  uint32_t frame_bytes = 0;     // of registers
  uint32_t carry_slot = 0;      // the CC register's predicate
  uint64_t local_bytes = 0;     // of .local and .param variables, a thread's
  bool grows_stack = false;     // by alloca
  // Places of .param and .local variables in a thread's local frame.
  std::map<std::string, uint64_t, std::less<>> local_offsets;
  std::vector<uint64_t> param_offsets;   // of parameters, in the local frame
  std::vector<uint64_t> result_offsets;  // likewise
  std::vector<Slot> register_slots;      // of Function::registers
  std::vector<PlacedSlot> slots;         // all of a frame
  // Registers that wgmma uses, for the checks (register_watch.h); nullptr where there is none.
  std::shared_ptr<const WatchedRegisters> watched;

  // The pool starts at a multiple of 64.
  const std::byte* pool_data() const {
    const auto at = reinterpret_cast<uintptr_t>(pool.data());
    return pool.data() + ((64 - at % 64) % 64);
  }
};

// A kernel with every function that it can reach, and its shared memory's layout.
struct KernelCode {
  const Module* module = nullptr;
  int capability = 90;                                   // of the device, major * 10 + minor
  std::vector<std::unique_ptr<FunctionCode>> functions;  // [0] is the kernel
  std::unordered_map<std::string, uint32_t> function_index;
  // By place in Module::functions, which a function's address tells; UINT32_MAX: not reached.
  std::vector<uint32_t> function_of_module;
  std::map<std::string, uint64_t, std::less<>> shared_offsets;  // from the block's window start
  uint64_t dynamic_shared_offset = 0;
};

}  // namespace mpfa::sim
