// A warp: 32 lanes, their registers, and where each of them is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/machine/code.h"
#include "sim/machine/dim3.h"
#include "sim/machine/fault.h"
#include "sim/machine/global_memory.h"

namespace mpfa::sim {

struct Block;
struct Wait;
struct RegisterWatch;
class AsyncGroups;
struct UndefinedValues;
class Monitor;

struct Frame;

// Where lanes called from and go back to.
struct CallSite {
  uint32_t lanes = 0;  // that have not returned
  Frame* parent = nullptr;
  uint32_t return_pc = 0;
  const InsnDetail* call = nullptr;  // where results go
};

// The registers of one call of a function, for the lanes that made it together, or have met in it.
struct Frame {
  std::vector<CallSite> sites;  // none: a kernel
  const FunctionCode* code = nullptr;
  uint32_t depth = 0;
  uint32_t lanes = 0;       // that have not returned
  uint64_t local_base = 0;  // of its variables, in every lane's local memory
  // Where each lane's stack ends: behind its variables and what alloca has taken.
  std::array<uint64_t, kWarpSize> local_top = {};
  // Kept alive by wgmma on its way, which may outlast the call.
  std::shared_ptr<std::byte[]> storage;
  std::byte* registers = nullptr;        // in storage, at a multiple of 64
  std::shared_ptr<RegisterWatch> watch;  // made when a register that wgmma uses is first used
};

// Why a split does not go on, for the report of a deadlock.
struct Wait {
  bool blocked = false;
  uint64_t event = 0;  // Cluster::events when it blocked: nothing has changed before that moves on
  uint8_t stage = 0;   // of the instruction that waits: 0 before its arrival
  uint64_t token = 0;  // what the instruction keeps: a barrier's generation, a member mask
  const char* reason = "";  // "for the other threads of its block"
  // Says more than `reason`, from `token`; may be null.
  std::string (*describe)(const Warp& warp, const Wait& wait) = nullptr;
  // mbarrier.try_wait: may go on, with false, when nothing else can.
  bool is_timed = false;
  bool has_expired = false;
};

// Lanes of a warp that are at the same place.
struct Split {
  uint32_t mask = 0;
  uint32_t pc = 0;
  Frame* frame = nullptr;
  Wait wait;
};

struct Warp {
  // ---- what handlers use ----
  std::byte* bases[2] = {nullptr, nullptr};  // of registers, of the pool
  uint32_t mask = 0;                         // lanes that run the instruction
  Block* block = nullptr;
  Monitor* monitor = nullptr;  // of its cluster; nullptr: nothing is checked
  uint32_t index = 0;          // in its block
  uint32_t present = 0;        // lanes that exist
  uint32_t exited = 0;         // lanes that have ended
  Split* split = nullptr;      // that runs
  uint64_t instructions = 0;   // run so far, the warp's clock
  Allocation allocation;       // that a global access found last
  uint64_t allocation_generation = UINT64_MAX;

  alignas(64) uint32_t tid_x[kWarpSize] = {};
  alignas(64) uint32_t tid_y[kWarpSize] = {};
  alignas(64) uint32_t tid_z[kWarpSize] = {};

  template <class T>
  const T* source(Slot slot) const {
    return reinterpret_cast<const T*>(bases[slot >> 31] + (slot & ~kPoolBit));
  }
  template <class T>
  T* target(Slot slot) {
    return reinterpret_cast<T*>(bases[0] + slot);
  }
  uint32_t predicate(Slot slot) const { return *source<uint32_t>(slot); }
  // Sets the bits of the active lanes.
  void set_predicate(Slot slot, uint32_t bits) {
    uint32_t* to = target<uint32_t>(slot);
    *to = (*to & ~mask) | (bits & mask);
  }
  uint32_t live() const { return present & ~exited; }

  // A lane's byte of local memory; offset < local_stride.
  std::byte* local(int lane, uint64_t offset) const {
    return local_memory + static_cast<uint64_t>(lane) * local_stride + offset;
  }

  // ---- control ----
  // Starts all lanes at the kernel's first instruction.
  void start(Block* owner, uint32_t warp_index, const FunctionCode& kernel);
  bool finished() const { return splits.empty(); }
  // Runs up to `budget` instructions of splits that can go on. False if none could.
  bool run(uint32_t budget);
  // Moves the running split; after a conditional branch the others have a split of their own.
  Step jump(uint32_t pc) {
    split->pc = pc;
    return Step::kJump;
  }
  // Gives some lanes of the running split one of their own, at `pc`; they leave `mask` too.
  void detach(uint32_t lanes, uint32_t pc);
  // `insn`'s detail is a CallDetail.
  Step call(const FunctionCode& callee, const Insn& insn);
  Step return_from_call();
  Step exit_lanes();
  // Says why the running split waits.
  Step block_on(const char* reason, uint8_t stage = 0, uint64_t token = 0) const;

  // [kernel] file:line: text, block, warp, lanes.
  std::string where(const Insn& insn, uint32_t lanes) const;
  [[noreturn]] void fail(FaultKind kind, const Insn& insn, uint32_t lanes,
                         const std::string& message) const;

  // barrier.cluster: the generation that each lane has arrived for and not waited for; 0: none.
  uint64_t cluster_arrival[kWarpSize] = {};
  uint32_t cluster_arrived = 0;  // lanes that have arrived for the present one
  // mbarrier.test_wait: answers of false since Cluster::events was `poll_events`.
  uint32_t polls = 0;
  uint64_t poll_events = 0;
  // Asynchronous copies of its threads that no mbarrier tracks; made by async_groups().
  std::shared_ptr<AsyncGroups> async;
  // Registers that hold what nothing has written; nullptr: none do.
  std::shared_ptr<UndefinedValues> undefined;
  std::vector<std::unique_ptr<Split>> splits;
  std::vector<std::unique_ptr<Frame>> frames;
  std::byte* local_memory = nullptr;  // 32 * local_stride, touched lazily
  uint64_t local_stride = 0;

  Warp() = default;
  ~Warp();
  Warp(const Warp&) = delete;
  Warp& operator=(const Warp&) = delete;

 private:
  Frame* push_frame(const FunctionCode& code, uint32_t lanes, uint64_t local_base);
  void pop_frame(Frame* frame);
  void merge_splits();
  // Makes one frame of two of the same function, if it can; `gone` is no more then.
  bool merge_frames(Frame* kept, Frame* gone);
  // Lanes end: they leave a frame and those it was called from.
  void leave_frames(Frame* frame, uint32_t lanes);
  Split* choose_split();
  uint32_t merge_limit(const Split& chosen) const;
  void enter(Split& chosen);
  void drop_split(Split* gone);
  bool run_split(uint32_t& budget);
  // Leaves in `mask` the lanes that the guard lets run `insn`, and gives the others a split where
  // they must go on alone; false if none is left. `limit` is lowered to where they meet again.
  bool apply_guard(const Insn& insn, uint32_t pc, uint32_t& limit);
  // Where the running split is after a step that was not kNext.
  void leave_off(Step step, uint32_t pc) const;
};

}  // namespace mpfa::sim
