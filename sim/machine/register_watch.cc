#include "sim/machine/register_watch.h"

#include <algorithm>
#include <memory>

#include "mpfa/check.h"
#include "sim/machine/block.h"
#include "sim/machine/warpgroup.h"

namespace mpfa::sim {
namespace {

using State = RegisterWatch::State;
using User = RegisterWatch::User;

// The running warp as the checks see it.
struct Watcher {
  Warp& warp;
  const WatchedRegisters& watched;
  const Insn& insn;
  uint64_t fences = 0;  // of wgmma that the warp has executed
  uint64_t waited = 0;  // wgmma that it has waited for

  Watcher(Warp& w, const WatchedRegisters& registers, const Insn& i)
      : warp(w), watched(registers), insn(i) {
    const auto& groups = warp.block->warpgroups;
    const size_t at = warp.index / kWarpsOfGroup;
    if (at >= groups.size() || groups[at] == nullptr) return;
    const auto index = static_cast<int>(warp.index % kWarpsOfGroup);
    fences = groups[at]->fences(index);
    waited = groups[at]->waited(index);
  }

  RegisterWatch& states() const {
    std::shared_ptr<RegisterWatch>& watch = warp.split->frame->watch;
    if (watch == nullptr) {
      watch = std::make_shared<RegisterWatch>();
      watch->registers.resize(watched.names.size());
    }
    return *watch;
  }

  bool is_running(const User& user) const { return user.insn != nullptr && user.number >= waited; }

  [[noreturn]] void fail(const RegisterUse& use, const char* what, const char* other,
                         const Insn* other_insn) const {
    std::string message = internal::str_cat("register ", watched.names[use.reg], " ", what, "\n  ",
                                            warp.where(insn, warp.mask));
    if (other_insn != nullptr) {
      message += internal::str_cat("\n  ", other, " ", warp.where(*other_insn, 0));
    }
    throw Fault(FaultKind::kCheck, message);
  }

  void check_use(const RegisterUse& use, const State& state) const {
    const bool is_read = use.kind == RegisterUseKind::kRead;
    if (is_running(state.accumulates)) {
      fail(use,
           is_read ? "is read while it is the accumulator of a wgmma that may not be done: "
                     "wgmma.wait_group is missing"
                   : "is written while it is the accumulator of a wgmma that may not be done: "
                     "wgmma.wait_group is missing",
           "the wgmma is", state.accumulates.insn);
    }
    if (!is_read && is_running(state.reads)) {
      fail(use,
           "is written while a wgmma that may not be done reads its A from it: "
           "wgmma.wait_group is missing",
           "the wgmma is", state.reads.insn);
    }
  }

  // What a wgmma takes must have been fenced since others used it.
  void check_fence(const RegisterUse& use, const State& state, uint64_t shape) const {
    const bool accumulates = use.kind == RegisterUseKind::kAccumulator;
    if (state.written > fences) {
      fail(use,
           accumulates ? "is an accumulator of this wgmma, and was written after the last "
                         "wgmma.fence"
                       : "is in A of this wgmma, and was written after the last wgmma.fence",
           "written", state.writer);
    }
    const User& before = state.accumulates;
    const bool in_order = accumulates && before.shape == shape;
    if (is_running(before) && !in_order && before.fences == fences) {
      fail(use,
           accumulates ? "is the accumulator of a wgmma of another shape, too: "
                         "wgmma.fence is missing between them"
                       : "is in A of this wgmma and the accumulator of another that may not be "
                         "done: wgmma.fence is missing between them",
           "the other is", before.insn);
    }
    if (accumulates && is_running(state.reads) && state.reads.fences == fences &&
        state.reads.insn != &insn) {
      fail(use,
           "is an accumulator of this wgmma, and in A of another that may not be done: "
           "wgmma.fence is missing between them",
           "the other is", state.reads.insn);
    }
  }
};

}  // namespace

const WatchedRegisters* watched_registers(const Warp& warp) {
  if (warp.monitor == nullptr || !warp.block->grid->checks.async) return nullptr;
  return warp.split->frame->code->watched.get();
}

void watch_uses(Warp& warp, const WatchedRegisters& watched, const Insn& insn, size_t pc) {
  const Watcher watcher(warp, watched, insn);
  std::vector<State>& states = watcher.states().registers;
  State copied;  // the latest write of what a copy reads
  for (size_t i = watched.first_use[pc]; i < watched.first_use[pc + 1]; ++i) {
    const RegisterUse& use = watched.uses[i];
    State& state = states[use.reg];
    switch (use.kind) {
      case RegisterUseKind::kRead:
        watcher.check_use(use, state);
        if (state.written > copied.written) copied = state;
        break;
      case RegisterUseKind::kWrite:
        watcher.check_use(use, state);
        state.written = watcher.fences + 1;
        state.writer = &insn;
        break;
      case RegisterUseKind::kCopy:
        watcher.check_use(use, state);
        state.written = copied.written;
        state.writer = copied.writer;
        break;
      default:
        return;  // a wgmma: when it is issued
    }
  }
}

void watch_wgmma(Warp& warp, const Insn& insn, uint64_t number, uint64_t shape) {
  const WatchedRegisters* watched = watched_registers(warp);
  if (watched == nullptr) return;
  const Watcher watcher(warp, *watched, insn);
  if (watcher.fences == 0) {
    throw Fault(FaultKind::kCheck, "wgmma.fence is missing before the warp's first wgmma\n  " +
                                       warp.where(insn, warp.mask));
  }
  std::vector<State>& states = watcher.states().registers;
  const auto pc = static_cast<size_t>(&insn - warp.split->frame->code->insns.data());
  const auto first = watched->uses.begin() + watched->first_use[pc];
  const auto end = watched->uses.begin() + watched->first_use[pc + 1];
  std::for_each(first, end,
                [&](const RegisterUse& use) { watcher.check_fence(use, states[use.reg], shape); });
  const User user{&insn, number, watcher.fences, shape};
  std::for_each(first, end, [&](const RegisterUse& use) {
    State& state = states[use.reg];
    const bool accumulates = use.kind == RegisterUseKind::kAccumulator;
    (accumulates ? state.accumulates : state.reads) = user;
    if (accumulates) state.written = 0;
  });
}

}  // namespace mpfa::sim
