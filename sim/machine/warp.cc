#include "sim/machine/warp.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>

#include "mpfa/check.h"
#include "sim/machine/block.h"
#include "sim/machine/call_detail.h"
#include "sim/machine/demangle.h"
#include "sim/machine/monitor.h"
#include "sim/machine/register_watch.h"
#include "sim/machine/trace.h"
#include "sim/machine/undefined_values.h"
#include "sim/ptx/print.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kRegisterAlignment = 64;
constexpr uint64_t kFrameAlignment = 16;  // of a frame's variables in local memory
// One choice in so many is not the lowest place but any that can go on: threads must not rely on
// the order in which a warp's paths run, and none may starve.
constexpr uint64_t kOddChoice = 16;

std::string to_text(Dim3 at) { return internal::str_cat("(", at.x, ", ", at.y, ", ", at.z, ")"); }

// The function that an instruction stands in.
const FunctionCode& function_of(const KernelCode& kernel, const Insn& insn) {
  for (const auto& function : kernel.functions) {
    const std::vector<Insn>& insns = function->insns;
    const bool is_here =
        !std::less<>()(&insn, insns.data()) && std::less<>()(&insn, insns.data() + insns.size());
    if (is_here) return *function;
  }
  return *kernel.functions[0];
}

// Bytes that a call passes, lane by lane, between two places of a warp's local memory.
void copy_lanes(const Warp& warp, uint32_t lanes, uint64_t to, uint64_t from, uint64_t bytes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) != 0) std::memcpy(warp.local(lane, to), warp.local(lane, from), bytes);
  }
}

// Where a callee's variables may begin in all of these lanes.
uint64_t stack_end(const Frame& frame, uint32_t lanes) {
  uint64_t end = 0;
  for (size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) != 0) end = std::max(end, frame.local_top[lane]);
  }
  return (end + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
}

bool have_sizes(const std::vector<PassedValue>& passed, const std::vector<Variable>& declared) {
  return std::equal(passed.begin(), passed.end(), declared.begin(), declared.end(),
                    [](const PassedValue& value, const Variable& variable) {
                      return value.bytes == static_cast<uint64_t>(variable.bytes());
                    });
}

std::string sizes_of(const std::vector<PassedValue>& passed) {
  std::string text;
  for (const PassedValue& value : passed) {
    text += (text.empty() ? "" : ", ") + std::to_string(value.bytes);
  }
  return "(" + text + ")";
}

// A function pointer may lead to a function of another type than the call is for.
void check_prototype(const Warp& warp, const Insn& insn, const FunctionCode& callee,
                     const CallDetail& passed) {
  const Function& function = *callee.function;
  const bool same_results = passed.results.empty() || have_sizes(passed.results, function.results);
  if (same_results && have_sizes(passed.arguments, function.params)) return;
  warp.fail(FaultKind::kInvalidPc, insn, warp.mask,
            internal::str_cat("the call's arguments and results, of ", sizes_of(passed.arguments),
                              " and ", sizes_of(passed.results),
                              " bytes, are not those of the function ", demangled(function.name)));
}

// Lanes' registers from one frame of a function to another.
void copy_registers(const FunctionCode& code, uint32_t lanes, const std::byte* from,
                    std::byte* to) {
  for (const PlacedSlot& each : code.slots) {
    if (each.bits == 1) {
      uint32_t old_bits = 0;
      uint32_t new_bits = 0;
      std::memcpy(&old_bits, to + each.slot, sizeof(old_bits));
      std::memcpy(&new_bits, from + each.slot, sizeof(new_bits));
      new_bits = (old_bits & ~lanes) | (new_bits & lanes);
      std::memcpy(to + each.slot, &new_bits, sizeof(new_bits));
      continue;
    }
    const size_t lane_bytes = static_cast<size_t>(std::max(each.bits / 8, 2));
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const size_t at = each.slot + lane * lane_bytes;
      std::memcpy(to + at, from + at, lane_bytes);
    }
  }
}

}  // namespace

Warp::~Warp() {
  if (local_memory != nullptr) munmap(local_memory, kWarpSize * local_stride);
}

void Warp::start(Block* owner, uint32_t warp_index, const FunctionCode& kernel) {
  block = owner;
  index = warp_index;
  const Grid& grid = *block->grid;
  const uint64_t threads = grid.block.count();
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const uint64_t thread = uint64_t{warp_index} * kWarpSize + static_cast<uint64_t>(lane);
    if (thread < threads) present |= 1u << lane;
    const Dim3 at = position_of(thread, grid.block);
    tid_x[lane] = at.x;
    tid_y[lane] = at.y;
    tid_z[lane] = at.z;
  }
  if (grid.stack_bytes > 0) {
    local_stride = grid.stack_bytes;
    void* memory = mmap(nullptr, kWarpSize * local_stride, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw Error("no address space for a warp's local memory");
    local_memory = static_cast<std::byte*>(memory);
  }
  auto first = std::make_unique<Split>();
  first->mask = present;
  first->frame = push_frame(kernel, present, 0);
  splits.push_back(std::move(first));
}

// ---- frames
// ----------------------------------------------------------------------------------------

Frame* Warp::push_frame(const FunctionCode& code, uint32_t lanes, uint64_t local_base) {
  auto frame = std::make_unique<Frame>();
  frame->code = &code;
  frame->lanes = lanes;
  frame->local_base = local_base;
  frame->local_top.fill(local_base + code.local_bytes);
  frame->storage = std::make_shared<std::byte[]>(code.frame_bytes + kRegisterAlignment);
  const auto at = reinterpret_cast<uintptr_t>(frame->storage.get());
  frame->registers = frame->storage.get() + (kRegisterAlignment - at % kRegisterAlignment);
  frames.push_back(std::move(frame));
  return frames.back().get();
}

void Warp::pop_frame(Frame* frame) {
  std::erase_if(frames, [&](const auto& each) { return each.get() == frame; });
}

Step Warp::call(const FunctionCode& callee, const Insn& insn) {
  Frame* caller = split->frame;
  const auto& passed = static_cast<const CallDetail&>(*insn.detail);
  check_prototype(*this, insn, callee, passed);
  // Frames of other calls of this warp may lie above: lanes never share local memory, but calls of
  // different splits may be of different depth, so each lane's own caller decides.
  const uint64_t local_base = stack_end(*caller, split->mask);
  if (local_base + callee.local_bytes > local_stride) {
    fail(FaultKind::kIllegalAddress, insn, mask,
         internal::str_cat("the stack of ", local_stride, " bytes is full (cudaLimitStackSize)"));
  }
  Frame* frame = push_frame(callee, split->mask, local_base);
  frame->sites.push_back({split->mask, caller, split->pc + 1, insn.detail});
  frame->depth = caller->depth + 1;
  for (size_t i = 0; i < passed.arguments.size(); ++i) {
    copy_lanes(*this, split->mask, frame->local_base + callee.param_offsets[i],
               caller->local_base + passed.arguments[i].offset, passed.arguments[i].bytes);
  }
  split->frame = frame;
  return jump(0);
}

Step Warp::return_from_call() {
  Frame* frame = split->frame;
  if (frame->sites.empty()) return exit_lanes();
  const uint32_t lanes = split->mask;
  bool is_first = true;
  uint32_t pc = 0;
  for (CallSite& site : frame->sites) {
    const uint32_t here = site.lanes & lanes;
    if (here == 0) continue;
    const auto& passed = static_cast<const CallDetail&>(*site.call);
    for (size_t i = 0; i < passed.results.size(); ++i) {
      copy_lanes(*this, here, site.parent->local_base + passed.results[i].offset,
                 frame->local_base + frame->code->result_offsets[i], passed.results[i].bytes);
    }
    site.lanes &= ~here;
    // The first place goes on; lanes of others have met these in the function, and part again.
    if (!is_first) detach(here, site.return_pc);
    Split& returning = is_first ? *split : *splits.back();
    returning.frame = site.parent;
    if (is_first) pc = site.return_pc;
    is_first = false;
  }
  frame->lanes &= ~lanes;
  std::erase_if(frame->sites, [](const CallSite& site) { return site.lanes == 0; });
  if (frame->lanes == 0) pop_frame(frame);
  return jump(pc);
}

void Warp::leave_frames(Frame* frame, uint32_t lanes) {
  for (CallSite& site : frame->sites) {
    if ((site.lanes & lanes) != 0) leave_frames(site.parent, site.lanes & lanes);
    site.lanes &= ~lanes;
  }
  frame->lanes &= ~lanes;
  if (frame->lanes == 0) pop_frame(frame);
}

Step Warp::exit_lanes() {
  const uint32_t lanes = split->mask;
  exited |= lanes;
  if (monitor != nullptr) monitor->end_threads(*this);
  // Registers end with their thread: what still uses them is done before.
  if (live() == 0) {
    for (const auto& group : block->warpgroups) {
      if (group) group->run_until(group->complete());
    }
  }
  leave_frames(split->frame, lanes);
  drop_split(split);
  split = nullptr;
  block->cluster->notify();
  return Step::kJump;
}

Step Warp::block_on(const char* reason, uint8_t stage, uint64_t token) const {
  split->wait.reason = reason;
  split->wait.stage = stage;
  split->wait.token = token;
  return Step::kBlock;
}

void Warp::detach(uint32_t lanes, uint32_t pc) {
  auto rest = std::make_unique<Split>();
  rest->mask = lanes;
  rest->pc = pc;
  rest->frame = split->frame;
  split->mask &= ~lanes;
  mask &= ~lanes;
  splits.push_back(std::move(rest));
}

// ---- splits
// ----------------------------------------------------------------------------------------

void Warp::drop_split(Split* gone) {
  std::erase_if(splits, [&](const auto& each) { return each.get() == gone; });
}

bool Warp::merge_frames(Frame* kept, Frame* gone) {
  if (kept == gone) return true;
  // Their variables must lie alike, and nothing may be under way that knows where registers are.
  if (kept->code != gone->code || kept->local_base != gone->local_base) return false;
  if (kept->sites.empty() || kept->watch != nullptr || gone->watch != nullptr) return false;
  copy_registers(*kept->code, gone->lanes, gone->registers, kept->registers);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((gone->lanes >> lane & 1) != 0) kept->local_top[lane] = gone->local_top[lane];
  }
  kept->lanes |= gone->lanes;
  kept->depth = std::max(kept->depth, gone->depth);
  kept->sites.insert(kept->sites.end(), gone->sites.begin(), gone->sites.end());
  for (const auto& each : splits) {
    if (each->frame == gone) each->frame = kept;
  }
  for (const auto& each : frames) {
    for (CallSite& site : each->sites) {
      if (site.parent == gone) site.parent = kept;
    }
  }
  if (undefined != nullptr) move_undefined(*undefined, gone, kept);
  pop_frame(gone);
  return true;
}

void Warp::merge_splits() {
  for (size_t i = 0; i < splits.size(); ++i) {
    for (size_t j = splits.size() - 1; j > i; --j) {
      Split& one = *splits[i];
      const Split& other = *splits[j];
      if (one.pc != other.pc || one.wait.stage != 0 || other.wait.stage != 0) continue;
      if (!merge_frames(one.frame, other.frame)) continue;
      one.mask |= other.mask;
      one.wait = {};
      splits.erase(splits.begin() + static_cast<int64_t>(j));
    }
  }
}

// The deepest call first, then the lowest place: paths meet again where they can.
Split* Warp::choose_split() {
  const uint64_t events = block->cluster->events;
  Split* best = nullptr;
  uint64_t able = 0;
  const bool odd = splits.size() > 1 && block->cluster->random.one_in(kOddChoice);
  for (const auto& each : splits) {
    if (each->wait.blocked && each->wait.event == events) continue;
    ++able;
    if (odd) {
      if (block->cluster->random.one_in(able)) best = each.get();
      continue;
    }
    const bool better = best == nullptr || each->frame->depth > best->frame->depth ||
                        (each->frame->depth == best->frame->depth && each->pc < best->pc);
    if (better) best = each.get();
  }
  return best;
}

// The next place where the chosen split may meet another one.
uint32_t Warp::merge_limit(const Split& chosen) const {
  uint32_t limit = UINT32_MAX;
  for (const auto& each : splits) {
    if (each->frame == chosen.frame && each->pc > chosen.pc) limit = std::min(limit, each->pc);
  }
  return limit;
}

void Warp::enter(Split& chosen) {
  split = &chosen;
  bases[0] = chosen.frame->registers;
  bases[1] = const_cast<std::byte*>(chosen.frame->code->pool_data());
}

bool Warp::run(uint32_t budget) {
  bool progress = false;
  while (budget > 0 && !splits.empty()) {
    if (splits.size() > 1) merge_splits();
    Split* chosen = choose_split();
    if (chosen == nullptr) break;
    enter(*chosen);
    progress |= run_split(budget);
  }
  return progress;
}

bool Warp::apply_guard(const Insn& insn, uint32_t pc, uint32_t& limit) {
  if (undefined != nullptr) [[unlikely]]
    check_undefined_guard(*this, insn);
  const uint32_t guard = predicate(insn.guard);
  mask &= insn.guard_negated ? ~guard : guard;
  if (mask != 0 && insn.splits && mask != split->mask) {
    detach(split->mask & ~mask, pc + 1);
    limit = std::min(limit, pc + 1);
  }
  return mask != 0;
}

void Warp::leave_off(Step step, uint32_t pc) const {
  if (step == Step::kBlock) {
    split->wait.blocked = true;
    split->wait.event = block->cluster->events;
  } else if (step == Step::kYield) {
    split->pc = pc + 1;
    split->wait = {};
  }
}

// Runs the split until it blocks, ends, may meet another, or the budget is spent.
bool Warp::run_split(uint32_t& budget) {
  const Insn* code = split->frame->code->insns.data();
  const WatchedRegisters* watched = watched_registers(*this);
  uint32_t limit = merge_limit(*split);
  uint32_t pc = split->pc;
  uint32_t left = budget;
  const uint32_t before = left;
  bool waited = split->wait.blocked;
  Trace* const trace = block->grid->trace;
  while (left > 0 && pc < limit) {
    --left;
    const Insn& insn = code[pc];
    mask = split->mask;
    if (insn.guard != kNoSlot && !apply_guard(insn, pc, limit)) {
      ++pc;
      continue;
    }
    split->pc = pc;
    if (watched != nullptr) [[unlikely]]
      watch_registers(*this, *watched, insn, pc);
    if (undefined != nullptr) [[unlikely]]
      follow_undefined(*this, insn);
    if (trace != nullptr) [[unlikely]]
      trace->write(*this, insn);
    const Step step = insn.run(*this, insn);
    if (waited && step != Step::kBlock && split != nullptr) {
      split->wait = {};
      waited = false;
    }
    if (step == Step::kNext) [[likely]] {
      ++pc;
      continue;
    }
    if (step == Step::kJump && split != nullptr && splits.size() == 1) {
      enter(*split);
      code = split->frame->code->insns.data();
      watched = watched_registers(*this);
      pc = split->pc;
      continue;
    }
    leave_off(step, pc);
    if (step == Step::kBlock) ++left;
    const uint32_t spent = budget - left;
    instructions += spent;
    const bool moved = before != left;
    budget = step == Step::kYield ? 0 : left;
    return moved;
  }
  split->pc = pc;
  instructions += budget - left;
  budget = left;
  return true;
}

// ---- messages
// --------------------------------------------------------------------------------------

std::string Warp::where(const Insn& insn, uint32_t lanes) const {
  const Grid& grid = *block->grid;
  const FunctionCode& code = function_of(*grid.code, insn);
  const Module& module = *grid.code->module;
  const Instruction& source = code.function->instructions[insn.source];
  std::ostringstream out;
  out << "in " << demangled(grid.kernel->name);
  if (!code.function->is_entry) out << ", function " << demangled(code.function->name);
  const auto file = module.files.find(source.location.file);
  if (file != module.files.end()) out << ", " << file->second << ":" << source.location.line;
  out << ", PTX line " << source.ptx_line << ": " << print_instruction(*code.function, source);
  out << "\n  block " << to_text(block->position) << ", warp " << index;
  if (lanes != 0) {
    const int lane = std::countr_zero(lanes);
    out << ", thread " << to_text({tid_x[lane], tid_y[lane], tid_z[lane]});
    if (std::popcount(lanes) > 1) out << " and " << std::popcount(lanes) - 1 << " more";
  }
  return out.str();
}

void Warp::fail(FaultKind kind, const Insn& insn, uint32_t lanes,
                const std::string& message) const {
  throw Fault(kind, message + "\n  " + where(insn, lanes));
}

}  // namespace mpfa::sim
