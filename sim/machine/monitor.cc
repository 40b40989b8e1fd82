#include "sim/machine/monitor.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/machine/address.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/undefined_values.h"

namespace mpfa::sim {
namespace {

// Asynchronous operations that are told apart at a time; one more counts for the oldest one, too.
constexpr uint32_t kAsyncSlots = 32;
// Addresses at which flags are told apart: those of one kernel are few. Others share one.
constexpr size_t kMostFlags = size_t{1} << 14;
constexpr uint64_t kOtherFlags = 1;

// Whether a thread, or lanes that do the same, know that a past access is over.
struct ThreadOrder {
  const Seen* memory = nullptr;  // by agent
  const Seen* reads = nullptr;
  Seen own_memory;
  Seen own_reads;
  Agent own = 0;
  uint32_t lanes = 0;
  bool is_write = false;

  void know(const View& view) {
    memory = view.known[Relation::kMemory]->data();
    reads = view.known[Relation::kReads]->data();
    own_memory = view.own[Relation::kMemory];
    own_reads = view.own[Relation::kReads];
  }

  bool operator()(const PastAccess& past) const {
    if (past.agent == own) return orders_own(past);
    return (past.is_write() ? memory : reads)[past.agent].covers(past.lanes, past.clock);
  }

  bool orders_own(const PastAccess& past) const {
    // Of lanes that read together each has to know a write, but its own earlier read is enough.
    const bool both_read = !is_write && !past.is_write();
    const bool is_same =
        both_read ? (past.lanes & ~lanes) == 0 : past.lanes == lanes && (lanes & (lanes - 1)) == 0;
    return is_same || (past.is_write() ? own_memory : own_reads).covers(past.lanes, past.clock);
  }
};

// The same of an asynchronous operation.
struct AsyncOrder {
  const AsyncStart& operation;
  bool needs_proxy_fence;
  bool lacks_proxy_fence = false;

  bool is_known(Relation relation, const PastAccess& past) const {
    const View& view = operation.past.view;
    const Seen& seen = past.agent == operation.past.agent ? view.own[relation]
                                                          : (*view.known[relation])[past.agent];
    return seen.covers(past.lanes, past.clock);
  }

  bool operator()(const PastAccess& past) {
    if (past.agent == operation.agent && past.clock == operation.clock) return true;
    const Relation relation = past.is_write() ? Relation::kMemory : Relation::kReads;
    if (!is_known(relation, past)) return false;
    if (!needs_proxy_fence || !past.is_write()) return true;
    // CUTLASS hands what cp.async has written to wgmma without a fence (its
    // sm90_mma_multistage_gmma_ss_warpspecialized.hpp), though cp.async is of the generic proxy.
    if ((past.flags & (kIsAsyncProxy | kIsAsync)) != 0) return true;
    if (is_known(Relation::kProxied, past)) return true;
    lacks_proxy_fence = true;
    return false;
  }
};

bool is_strong(const Access& access) {
  return access.kind == AccessKind::kAtomic || access.order != MemoryOrder::kWeak;
}

// Calls of(cell, bytes) for the cells that [offset, offset + bytes) touches, until it gives false.
template <class F>
void for_each_cell(uint64_t offset, uint64_t bytes, F of) {
  const uint64_t end = offset + bytes;
  for (uint64_t at = offset; at < end;) {
    const uint64_t cell = at / kCellBytes;
    const uint64_t stop = std::min(end, (cell + 1) * kCellBytes);
    const uint64_t mask = ((1u << (stop - at)) - 1) << (at % kCellBytes);
    of(static_cast<uint32_t>(cell), static_cast<uint8_t>(mask));
    at = stop;
  }
}

}  // namespace

// The active lanes of an access that are in shared memory, and where.
struct Monitor::Lanes {
  uint32_t shared = 0;
  alignas(64) uint32_t at[kWarpSize];  // rank and offset

  // Whether no two are the same: with aligned addresses, no two overlap.
  bool are_spread() const {
    bool ascend = true;
    uint64_t next = 0;
    for_each_lane(shared, [&](int lane) {
      ascend &= at[lane] >= next;
      next = uint64_t{at[lane]} + 1;
    });
    return ascend || are_different();
  }
  bool are_different() const {
    uint32_t twice[2 * kWarpSize];
    for (int lane = 0; lane < kWarpSize; ++lane) {
      // No address is odd and in the last block of 256.
      const uint32_t none = ~(2 * static_cast<uint32_t>(lane));
      twice[lane] = twice[lane + kWarpSize] = (shared >> lane & 1) != 0 ? at[lane] : none;
    }
    uint32_t same = 0;
    for (int by = 1; by <= kWarpSize / 2; ++by) {
      for (int lane = 0; lane < kWarpSize; ++lane) {
        same |= static_cast<uint32_t>(twice[lane] == twice[lane + by]);
      }
    }
    return same == 0;
  }
  bool are_same() const {
    const uint32_t first = at[std::countr_zero(shared)];
    uint32_t same = 0;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      same |= static_cast<uint32_t>(at[lane] == first) << lane;
    }
    return (shared & ~same) == 0;
  }
};

Monitor::Monitor(Cluster& cluster)
    : cluster_(cluster),
      checks_(cluster.grid->checks),
      records_(checks_.races || checks_.async || checks_.barriers),
      warps_per_block_(static_cast<uint32_t>(cluster.blocks.at(0)->warps.size())),
      warp_count_(warps_per_block_ * static_cast<uint32_t>(cluster.blocks.size())),
      order_(warp_count_, kAsyncSlots),
      shadows_(cluster.blocks.size()),
      ended_(cluster.blocks.size()),
      visitors_(cluster.blocks.size()),
      async_clocks_(kAsyncSlots) {}

SharedShadow& Monitor::shadow(const Block& block) {
  std::unique_ptr<SharedShadow>& found = shadows_[block.rank];
  if (found == nullptr) {
    found = std::make_unique<SharedShadow>(block.shared.size());
    // What the system reserves is not the program's to initialise; cooperative groups clear bits of
    // it.
    const auto reserved = static_cast<uint64_t>(block.grid->model->reserved_shared_bytes);
    found->mark_range(0, std::min<uint64_t>(reserved, block.shared.size()));
  }
  return *found;
}

uint32_t Monitor::place_of(const Warp& warp, const Insn& insn) {
  const FunctionCode& code = *warp.split->frame->code;
  return code.first_insn + static_cast<uint32_t>(&insn - code.insns.data());
}

uint32_t Monitor::with_absent(const Warp& warp, uint32_t lanes) {
  return (warp.live() & ~lanes) == 0 ? kAllLanes : lanes;
}

PerRelation<KnowledgePtr> Monitor::sums_of(const Gathered& gathered) {
  PerRelation<KnowledgePtr> sums;
  for (const Relation relation : kAllRelations) sums[relation] = gathered.sum(relation);
  return sums;
}

// ---- accesses
// ---------------------------------------------------------------------------------------

void Monitor::observe(Warp& warp, const Insn& insn, const Access& access) {
  Lanes lanes;
  switch (access.space) {
    case MemorySpace::kShared:
    case MemorySpace::kSharedCluster:
      lanes.shared = warp.mask;
      for (int i = 0; i < kWarpSize; ++i) {
        lanes.at[i] = static_cast<uint32_t>(access.addresses[i]);
      }
      break;
    case MemorySpace::kGeneric:
      for (int i = 0; i < kWarpSize; ++i) {
        const uint64_t address = access.addresses[i] - kSharedWindow;
        lanes.at[i] = static_cast<uint32_t>(address);
        lanes.shared |= static_cast<uint32_t>(address < kWindowBytes) << i;
      }
      lanes.shared &= warp.mask;
      break;
    default:
      break;
  }
  if (lanes.shared != 0) observe_shared(warp, insn, access, lanes);
  if (!is_strong(access) || access.space == MemorySpace::kLocal) return;
  uint64_t keys[kWarpSize];
  uint32_t others_see = 0;  // each thread's local memory has the same addresses
  for (int i = 0; i < kWarpSize; ++i) {
    keys[i] = (lanes.shared >> i & 1) != 0 ? kSharedWindow + lanes.at[i] : access.addresses[i];
    const bool is_local = access.space == MemorySpace::kGeneric && in_local_window(keys[i]);
    others_see |= static_cast<uint32_t>(!is_local) << i;
  }
  synchronize(warp, access, warp.mask & others_see, keys);
}

// One access of a warp while it is checked.
struct Monitor::SharedAccess {
  const Warp& warp;
  const Insn& insn;
  const Lanes& lanes;
  uint32_t bytes = 0;
  bool is_write = false;
  bool check_written = false;
  const UndefinedBytes* storing = nullptr;  // what is written is undefined there
  StoredValue stored = nullptr;             // of a weak st
  // What is read that nothing has written, if that may be.
  UndefinedBytes unwritten = {};
  PastAccess first_unwritten = {};
  uint32_t first_unwritten_cell = 0;
  bool is_spread = true;  // lanes do not write the same bytes
  PastAccess now = {};
  ThreadOrder known = {};
};

// The same bytes of each of the lanes that are looked at together.
uint32_t Monitor::place_in_lane(uint32_t cell, uint32_t byte, const SharedAccess& access) {
  const uint32_t at = access.lanes.at[std::countr_zero(access.now.lanes)];
  return cell * kCellBytes + byte - (at & kSharedOffsetMask);
}

void Monitor::note_unwritten(const Block& block, uint32_t cell, uint8_t bytes,
                             SharedAccess& access) const {
  access.now.bytes = bytes;
  if (!reads_to_registers(access.warp, access.insn)) report_unwritten(block, cell, access.now);
  if (access.first_unwritten.bytes == 0) {
    access.first_unwritten = access.now;
    access.first_unwritten_cell = cell;
  }
  for (uint32_t byte = 0; byte < kCellBytes; ++byte) {
    if ((bytes >> byte & 1) == 0) continue;
    access.unwritten[place_in_lane(cell, byte, access)] |= access.now.lanes;
  }
}

uint8_t Monitor::undefined_part(uint32_t cell, uint8_t bytes, const SharedAccess& access) {
  uint8_t part = 0;
  for (uint32_t byte = 0; byte < kCellBytes; ++byte) {
    if ((bytes >> byte & 1) == 0) continue;
    const uint32_t lanes = (*access.storing)[place_in_lane(cell, byte, access)];
    if ((lanes & access.now.lanes) != 0) part |= static_cast<uint8_t>(1u << byte);
  }
  return part;
}

[[gnu::noinline]] void Monitor::touch(const Block& block, SharedShadow& shadow, uint32_t cell,
                                      uint8_t bytes, SharedAccess& access) {
  if (access.check_written && (shadow.written(cell) & bytes) != bytes) {
    note_unwritten(block, cell, static_cast<uint8_t>(bytes & ~shadow.written(cell)), access);
  }
  if (records_) {
    access.now.bytes = bytes;
    const auto is_same = [&](const PastAccess& past) {
      return may_overwrite(block, shadow, cell, past, access);
    };
    const PastAccess* before =
        access.is_spread ? shadow.check_and_record(cell, access.now, access.known, is_same)
                         : shadow.check(cell, access.now, access.known, is_same);
    if (before != nullptr && checks_.races) report_race(block, cell, access.now, *before, false);
  }
  if (!access.is_write) return;
  shadow.mark(cell, bytes);
  if (access.storing != nullptr) shadow.unmark(cell, undefined_part(cell, bytes, access));
}

// Whether a store may come unordered with a store before it: it writes what that has left.
bool Monitor::may_overwrite(const Block& block, const SharedShadow& shadow, uint32_t cell,
                            const PastAccess& past, const SharedAccess& access) {
  const auto common = static_cast<uint8_t>(past.bytes & access.now.bytes);
  if ((shadow.written(cell) & common) != common) return false;  // it left what nobody knows
  if (access.storing != nullptr && undefined_part(cell, common, access) != 0) return false;
  std::array<std::byte, 32> value;
  access.stored(access.warp, access.insn, std::countr_zero(access.now.lanes), value.data());
  for (uint32_t byte = 0; byte < kCellBytes; ++byte) {
    if ((common >> byte & 1) == 0) continue;
    const std::byte there = block.shared[size_t{cell} * kCellBytes + byte];
    if (value[place_in_lane(cell, byte, access)] != there) return false;
  }
  return (past.flags & kHidesRead) == 0 || knows_hidden_reads(past, access);
}

// Whether the reads that `past` has taken the place of are before `access`. True only if that is
// sure: those that its threads know of now stand for those that they knew of then.
bool Monitor::knows_hidden_reads(const PastAccess& past, const SharedAccess& access) {
  if ((past.flags & kHidesOwnRead) != 0) return false;
  const ThreadOrder& known = access.known;
  const auto seen_of = [&](size_t agent) {
    Seen seen = agent == known.own ? known.own_reads : known.reads[agent];
    if (agent == known.own) seen.add(access.now.lanes, access.now.clock);
    return seen;
  };
  if (seen_of(past.agent).low + 1 < past.clock) return false;
  for (const LaneGroup& group : order_.order(past.agent).groups) {
    if ((group.lanes & past.lanes) == 0) continue;
    const Knowledge& theirs = *group.view.known[Relation::kReads];
    for (size_t agent = 0; agent < theirs.size(); ++agent) {
      const Seen mine = seen_of(agent);
      Seen both = mine;
      both.join(theirs[agent]);
      if (agent != past.agent && !(both == mine)) return false;
    }
  }
  return true;
}

// Called for every lane of most accesses: inlined, and what is rare is not.
[[gnu::always_inline]] inline void Monitor::touch_words(const Block& block, SharedShadow& shadow,
                                                        uint32_t first, uint32_t count,
                                                        SharedAccess& access) {
  access.now.bytes = kWholeCell;
  for (uint32_t cell = first; cell < first + count; ++cell) {
    const bool is_done = access.is_write
                             ? shadow.record_write_quickly(cell, access.now, access.known)
                             : shadow.record_read_quickly(cell, access.now, access.known);
    if (!is_done) {
      touch(block, shadow, cell, kWholeCell, access);
    } else if (access.is_write) {
      shadow.mark(cell, kWholeCell);
    }
  }
}

void Monitor::touch_lanes(const Warp& warp, uint32_t members, SharedAccess& access) {
  const uint32_t own_rank = warp.block->rank;
  SharedShadow& own = shadow(*warp.block);
  const bool is_quick = records_ && access.is_spread && access.storing == nullptr &&
                        access.bytes % kCellBytes == 0 && (access.now.flags & kIsStrong) == 0;
  const uint32_t words = access.bytes / kCellBytes;
  for_each_lane(members, [&](int lane) {
    const uint32_t at = access.lanes.at[lane];
    const uint32_t offset = at & kSharedOffsetMask;
    access.now.lanes = access.known.lanes = 1u << lane;
    if (is_quick && at >> kSharedRankShift == own_rank && offset % kCellBytes == 0) {
      return touch_words(*warp.block, own, offset / kCellBytes, words, access);
    }
    touch_place(warp, at, access);
  });
}

void Monitor::touch_place(const Warp& warp, uint32_t at, SharedAccess& access) {
  const Block& block = *cluster_.blocks[at >> kSharedRankShift];
  SharedShadow& shadow = this->shadow(block);
  for_each_cell(at & kSharedOffsetMask, access.bytes,
                [&](uint32_t cell, uint8_t bytes) { touch(block, shadow, cell, bytes, access); });
  if (block.rank != warp.block->rank && records_) note_visit(block, access.now);
}

void Monitor::observe_shared(Warp& warp, const Insn& insn, const Access& access,
                             const Lanes& lanes) {
  const Agent agent = agent_of(warp);
  WarpOrder& order = order_.order(agent);
  order.last_access = order.clock;
  SharedAccess all = {.warp = warp, .insn = insn, .lanes = lanes, .bytes = access.bytes};
  all.is_write = access.kind != AccessKind::kRead;
  all.check_written =
      access.kind != AccessKind::kWrite && checks_.uninitialized && !access.may_be_unwritten;
  all.is_spread = !all.is_write || is_strong(access) || lanes.are_spread();
  all.stored = access.stored;
  all.now.clock = order.clock;
  all.now.place = place_of(warp, insn);
  all.now.agent = agent;
  all.now.flags =
      static_cast<uint8_t>((all.is_write ? kIsWrite : 0) | (is_strong(access) ? kIsStrong : 0) |
                           (access.stored != nullptr ? kIsStore : 0));
  all.known.own = agent;
  all.known.is_write = all.is_write;
  if (all.is_write && warp.undefined != nullptr && warp.undefined->is_storing) {
    all.storing = &warp.undefined->storing;
  }
  const bool together = !all.is_write && lanes.are_same();
  for (const LaneGroup& group : order.groups) {
    const uint32_t members = group.lanes & lanes.shared;
    if (members == 0) continue;
    all.known.know(group.view);
    if (together) {
      all.now.lanes = all.known.lanes = members;
      touch_place(warp, lanes.at[std::countr_zero(members)], all);
    } else {
      touch_lanes(warp, members, all);
    }
  }
  if (!all.is_spread && records_) record_overlapping(order, lanes, all);
  if (all.first_unwritten.bytes != 0) {
    const uint32_t at = lanes.at[std::countr_zero(all.first_unwritten.lanes)];
    load_undefined(warp, insn, all.unwritten,
                   unwritten_text(*cluster_.blocks[at >> kSharedRankShift],
                                  all.first_unwritten_cell, all.first_unwritten));
  }
}

// Lanes of one store may write the same bytes: all have been checked, none recorded.
void Monitor::record_overlapping(const WarpOrder& order, const Lanes& lanes, SharedAccess& access) {
  const auto record_lane = [&](int lane) {
    SharedShadow& shadow = this->shadow(*cluster_.blocks[lanes.at[lane] >> kSharedRankShift]);
    access.now.lanes = access.known.lanes = 1u << lane;
    for_each_cell(lanes.at[lane] & kSharedOffsetMask, access.bytes,
                  [&](uint32_t cell, uint8_t bytes) {
                    access.now.bytes = bytes;
                    shadow.record(cell, access.now, access.known);
                  });
  };
  for (const LaneGroup& group : order.groups) {
    access.known.know(group.view);
    for_each_lane(group.lanes & lanes.shared, record_lane);
  }
}

void observe_place(Warp& warp, const Insn& insn, int lane, const Block& block, uint64_t offset,
                   uint32_t bytes, AccessKind kind) {
  if (warp.monitor == nullptr) return;
  uint64_t addresses[kWarpSize] = {};
  addresses[lane] = block.shared_base() + offset;
  const uint32_t mask = warp.mask;
  warp.mask = 1u << lane;
  warp.monitor->observe(warp, insn,
                        {.space = MemorySpace::kSharedCluster,
                         .kind = kind,
                         .bytes = bytes,
                         .addresses = addresses,
                         .may_be_unwritten = true});
  warp.mask = mask;
}

void Monitor::mark_written(const Block& block, uint64_t offset, uint64_t bytes) {
  shadow(block).mark_range(offset, bytes);
}

// ---- flags
// ------------------------------------------------------------------------------------------

Gathered& Monitor::flag(uint64_t key) {
  const auto found = flags_.find(key);
  if (found != flags_.end()) return found->second;
  return flags_[flags_.size() < kMostFlags ? key : kOtherFlags];
}

void Monitor::synchronize(Warp& warp, const Access& access, uint32_t lanes, const uint64_t* keys) {
  const bool is_write = access.kind != AccessKind::kRead;
  const bool is_read = access.kind != AccessKind::kWrite;
  const MemoryOrder memory_order = access.order;
  const bool releases =
      is_write && (memory_order == MemoryOrder::kRelease || memory_order == MemoryOrder::kBoth);
  const bool acquires =
      is_read && (memory_order == MemoryOrder::kAcquire || memory_order == MemoryOrder::kBoth);
  const bool may_release = releases || (is_write && any_fence_);
  if (!may_release && !(is_read && !flags_.empty())) return;
  const Agent agent = agent_of(warp);
  const auto acquire = [&](uint32_t same, uint64_t key) {
    const auto found = flags_.find(key);
    const auto other = found == flags_.end() ? flags_.find(kOtherFlags) : found;
    if (other == flags_.end()) return;
    order_.acquire(agent, same, sums_of(other->second), acquires);
  };
  for (uint32_t left = lanes; left != 0;) {
    const uint64_t key = keys[std::countr_zero(left)];
    uint32_t same = 0;
    for_each_lane(left,
                  [&](int lane) { same |= static_cast<uint32_t>(keys[lane] == key) << lane; });
    left &= ~same;
    if (is_read) acquire(same, key);
    if (releases) {
      order_.release(agent, same, flag(key));
    } else if (may_release && order_.has_fence(agent, same)) {
      order_.release_fenced(agent, same, flag(key));
    } else {
      continue;
    }
    // Of lanes at one place the later ones acquire from the earlier ones, too. In which order is
    // not known yet: all do.
    if (is_read && (same & (same - 1)) != 0) acquire(same, key);
  }
}

void Monitor::fence(Warp& warp) {
  any_fence_ = true;
  order_.fence(agent_of(warp), with_absent(warp, warp.mask));
}

void Monitor::proxy_fence(Warp& warp) {
  order_.proxy_fence(agent_of(warp), with_absent(warp, warp.mask));
}

// ---- meetings
// ---------------------------------------------------------------------------------------

void Monitor::arrive(Warp& warp, uint32_t lanes, Meeting at, bool is_relaxed) {
  Gathered& sum = meetings_[at].arriving;
  lanes = with_absent(warp, lanes);
  const Agent agent = agent_of(warp);
  if (is_relaxed) {
    order_.release_fenced(agent, lanes, sum);
    order_.release_reads(agent, lanes, sum);
  } else {
    order_.release(agent, lanes, sum);
  }
}

void Monitor::add_ended(Meeting at, const Block& block) {
  meetings_[at].arriving.add(ended_[block.rank]);
}

void Monitor::complete(Meeting at, uint64_t generation) {
  Phases& phases = meetings_[at];
  Phase& phase = phases.complete[generation % phases.complete.size()];
  for (const Relation relation : kAllRelations) {
    phases.older.add(relation, phase.sums[relation]);
  }
  phase = {generation, sums_of(phases.arriving)};
  phases.arriving.reset();
}

void Monitor::leave(Warp& warp, uint32_t lanes, Meeting at, uint64_t generation, Leave how) {
  const Phases& phases = meetings_[at];
  const Phase& phase = phases.complete[generation % phases.complete.size()];
  const Agent agent = agent_of(warp);
  lanes = with_absent(warp, lanes);
  const bool is_last = phase.generation == generation;
  if (is_last && how == Leave::kHasWaited) return order_.replace(agent, lanes, phase.sums);
  const PerRelation<KnowledgePtr> sums = is_last ? phase.sums : sums_of(phases.older);
  order_.acquire(agent, lanes, sums, how != Leave::kRelaxed);
  if (how != Leave::kRelaxed) return;
  PerRelation<KnowledgePtr> reads;
  reads[Relation::kReads] = sums[Relation::kReads];
  order_.acquire(agent, lanes, reads);
}

// ---- asynchronous operations
// ------------------------------------------------------------------------

AsyncHandle Monitor::start_async(Warp& warp, const Insn& insn, uint32_t lanes, Proxy proxy) {
  auto operation = std::make_shared<AsyncStart>();
  const uint32_t slot = next_slot_++ % kAsyncSlots;
  const Agent agent = agent_of(warp);
  operation->agent = static_cast<Agent>(warp_count_ + slot);
  operation->clock = ++async_clocks_[slot];
  operation->past = order_.fork(agent, lanes);
  operation->place = place_of(warp, insn);
  operation->origin = pack_origin(agent, static_cast<uint32_t>(std::countr_zero(lanes)));
  operation->proxy = proxy;
  return operation;
}

void Monitor::join_async(AsyncStart& operation, Warp& warp, uint32_t lanes) {
  const Past other = order_.fork(agent_of(warp), lanes);
  Gathered sum;
  sum.add(other, order_.nothing());
  View& view = operation.past.view;
  for (const Relation relation : kAllRelations) {
    const KnowledgePtr more = sum.sum(relation);
    if (more == nullptr) continue;
    learn(view.known[relation], more);
    view.own[relation].join((*more)[operation.past.agent]);
  }
}

void Monitor::observe_async(const AsyncStart& operation, const Block& block, uint64_t offset,
                            uint64_t bytes, AccessKind kind, bool may_be_unwritten) {
  const bool checks_written = checks_.uninitialized && !may_be_unwritten;
  const bool is_write = kind != AccessKind::kRead;
  const bool by_async_proxy = operation.proxy != Proxy::kGeneric;
  PastAccess now;
  now.lanes = operation.origin;
  now.clock = operation.clock;
  now.place = operation.place;
  now.agent = operation.agent;
  now.flags = static_cast<uint8_t>((is_write ? kIsWrite : 0) | kIsAsync |
                                   (kind == AccessKind::kAtomic ? kIsStrong : 0) |
                                   (by_async_proxy ? kIsAsyncProxy : 0));
  SharedShadow& shadow = this->shadow(block);
  for_each_cell(offset, bytes, [&](uint32_t cell, uint8_t cell_bytes) {
    if (is_write) {
      shadow.mark(cell, cell_bytes);
    } else if (checks_written && (shadow.written(cell) & cell_bytes) != cell_bytes) {
      now.bytes = cell_bytes;
      report_unwritten(block, cell, now);
    }
    if (!records_) return;
    now.bytes = cell_bytes;
    AsyncOrder known = {operation, by_async_proxy && !is_write && checks_.async};
    const auto is_ordered = [&](const PastAccess& past) { return known(past); };
    const PastAccess* before = shadow.check_and_record(cell, now, is_ordered);
    if (before == nullptr) return;
    if (known.lacks_proxy_fence || checks_.races) {
      report_race(block, cell, now, *before, known.lacks_proxy_fence);
    }
  });
  const bool is_foreign = (operation.origin >> 5) / warps_per_block_ != block.rank;
  if (records_ && (operation.proxy == Proxy::kAsync || is_foreign)) note_visit(block, now);
}

void Monitor::add_finished(const AsyncStart& operation, bool reads_only, Gathered& sum) {
  const Seen all = {operation.clock, operation.clock, 0};
  for (const Relation relation : kAllRelations) {
    if (reads_only && relation != Relation::kReads) continue;
    if (relation == Relation::kProxied && operation.proxy == Proxy::kGeneric) continue;
    sum.add(relation, operation.agent, all, order_.nothing());
  }
}

void Monitor::arrive_async(const AsyncStart& operation, Meeting at) {
  Gathered& sum = meetings_[at].arriving;
  sum.add(operation.past, order_.nothing());
  add_finished(operation, false, sum);
}

void Monitor::finish_async(Warp& warp, uint32_t lanes, const std::vector<AsyncHandle>& operations,
                           bool reads_only) {
  Gathered sum;
  for (const AsyncHandle& operation : operations) {
    if (operation == nullptr) continue;
    // Who takes part has started it, and what it had read before is over.
    const Past& past = operation->past;
    sum.add(Relation::kReads, past.view.known[Relation::kReads]);
    sum.add(Relation::kReads, past.agent, past.view.own[Relation::kReads], order_.nothing());
    add_finished(*operation, reads_only, sum);
  }
  order_.acquire(agent_of(warp), with_absent(warp, lanes), sums_of(sum));
}

// ---- within a warp
// ----------------------------------------------------------------------------------

void Monitor::sync_lanes(Warp& warp, uint32_t lanes) {
  order_.join_lanes(agent_of(warp), with_absent(warp, lanes));
}

void Monitor::order_reads(Warp& warp, uint32_t lanes) {
  order_.join_reads(agent_of(warp), with_absent(warp, lanes));
}

// ---- ends
// -------------------------------------------------------------------------------------------

// Of each visitor the last accesses: what is before them is over when they are.
void Monitor::note_visit(const Block& block, const PastAccess& access) {
  for (PastAccess& known : visitors_[block.rank]) {
    if (known.agent != access.agent) continue;
    if (is_async(access.agent) || (known.lanes & ~access.lanes) == 0) {
      known = access;
      return;
    }
    if (known.clock == access.clock) {
      known.lanes |= access.lanes;
      return;
    }
  }
  visitors_[block.rank].push_back(access);
}

void Monitor::end_threads(Warp& warp) {
  const Block& block = *warp.block;
  order_.release(agent_of(warp), warp.split->mask, ended_[block.rank]);
  if (block.live_threads() == 0) check_visitors(warp);
}

void Monitor::check_visitors(const Warp& warp) {
  const Block& block = *warp.block;
  const KnowledgePtr known = ended_[block.rank].sum(Relation::kReads);
  for (const PastAccess& visit : visitors_[block.rank]) {
    if ((*known)[visit.agent].covers(visit.lanes, visit.clock)) continue;
    if (is_async(visit.agent) ? checks_.async : checks_.barriers) report_early_end(warp, visit);
  }
  visitors_[block.rank].clear();
}

}  // namespace mpfa::sim
