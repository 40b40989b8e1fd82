// Barriers of warps, blocks and clusters.
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

constexpr uint32_t kBarrierCount = 16;
constexpr uint8_t kArrived = 1;   // Wait::stage of a thread that has arrived and waits
constexpr uint8_t kReleased = 2;  // of bar.warp.sync: another split has let it go

enum class BarrierOp : uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };

struct BarrierDetail : InsnDetail {
  BarrierOp op = BarrierOp::kSync;
  bool aligned = false;
  Slot id = kNoSlot;
  Slot threads = kNoSlot;    // kNoSlot: all of the block
  Slot predicate = kNoSlot;  // of red
  Slot result = kNoSlot;
};

// PTX ISA, "barrier": a thread "waits for all non-exited threads of its warp", which then arrives
// whole. Counts the warps that have come to that, by arrivals or by ends of threads.
void count_whole_warps(const Block& block, Barrier& barrier) {
  for (size_t i = 0; i < barrier.incomplete.size(); ++i) {
    uint32_t& lanes = barrier.incomplete[i];
    if (lanes == 0 || (block.warps[i]->live() & ~lanes) != 0) continue;
    barrier.counted += kWarpSize;
    lanes = 0;
    block.cluster->notify();
  }
}

bool is_complete(const Block& block, Barrier& barrier) {
  if (barrier.expected == 0) return barrier.arrived >= block.live_threads();
  count_whole_warps(block, barrier);
  return barrier.counted >= barrier.expected;
}

Meeting meeting_of(const Block& block, const Barrier& barrier) {
  return block_barrier(block, static_cast<uint32_t>(&barrier - block.barriers.data()));
}

void complete(Block& block, Barrier& barrier) {
  if (Monitor* monitor = block.cluster->monitor.get()) {
    if (barrier.expected == 0) monitor->add_ended(meeting_of(block, barrier), block);
    monitor->complete(meeting_of(block, barrier), barrier.generation);
  }
  Barrier next;
  next.generation = barrier.generation + 1;
  next.last_count = barrier.count;
  next.last_all = barrier.all;
  next.last_any = barrier.any;
  barrier = std::move(next);
  block.cluster->notify();
}

void arrive(Warp& w, const Insn& i, const BarrierDetail& detail, Barrier& barrier) {
  barrier.arrived += static_cast<uint32_t>(std::popcount(w.mask));
  if (w.mask == w.live() && barrier.incomplete.empty()) {
    barrier.counted += kWarpSize;
  } else {
    barrier.incomplete.resize(w.block->warps.size());
    barrier.incomplete[w.index] |= w.mask;
  }
  if (detail.threads != kNoSlot) {
    const uint32_t threads =
        common_value<uint32_t>(w, i, detail.threads, "name different thread counts");
    if (threads == 0 || threads % kWarpSize != 0) {
      w.fail(FaultKind::kCheck, i, w.mask,
             "the barrier's thread count is " + std::to_string(threads) +
                 "; it must be a multiple of 32, and not 0");
    }
    if (barrier.expected != 0 && barrier.expected != threads) {
      w.fail(FaultKind::kCheck, i, w.mask,
             "the barrier's thread count is " + std::to_string(threads) + ", but " +
                 std::to_string(barrier.expected) + " for those that came before");
    }
    barrier.expected = threads;
  }
  if (detail.predicate == kNoSlot) return;
  const uint32_t yes = w.predicate(detail.predicate) & w.mask;
  barrier.count += static_cast<uint32_t>(std::popcount(yes));
  barrier.all &= yes == w.mask;
  barrier.any |= yes != 0;
}

// Whether others of the warp have not come to where the active lanes have arrived.
bool awaits_its_warp(const Warp& w, const Barrier& barrier) {
  return !barrier.incomplete.empty() && (barrier.incomplete[w.index] & w.mask) != 0;
}

void store_reduction(Warp& w, const BarrierDetail& detail, const Barrier& barrier) {
  switch (detail.op) {
    case BarrierOp::kRedPopc: {
      uint32_t* to = w.target<uint32_t>(detail.result);
      for (int lane = 0; lane < kWarpSize; ++lane) {
        if ((w.mask >> lane & 1) != 0) to[lane] = barrier.last_count;
      }
      break;
    }
    case BarrierOp::kRedAnd:
      w.set_predicate(detail.result, barrier.last_all ? kAllLanes : 0);
      break;
    case BarrierOp::kRedOr:
      w.set_predicate(detail.result, barrier.last_any ? kAllLanes : 0);
      break;
    default:
      break;
  }
}

Step barrier(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const BarrierDetail&>(*i.detail);
  Wait& wait = w.split->wait;
  if (wait.stage == 0 && detail.aligned && !gather_warp(w)) return Step::kBlock;
  const uint32_t id = common_value<uint32_t>(w, i, detail.id, "name different barriers");
  if (id >= kBarrierCount) {
    w.fail(FaultKind::kIllegalInstruction, i, w.mask,
           "the barrier is " + std::to_string(id) + "; there are 0 to 15");
  }
  Block& block = *w.block;
  Barrier& at = block.barriers[id];
  if (wait.stage == 0) {
    arrive(w, i, detail, at);
    arrive(w, w.mask, meeting_of(block, at));
    w.block_on("at a barrier", kArrived, at.generation);
    if (is_complete(block, at)) complete(block, at);
  } else if (wait.token == at.generation && is_complete(block, at)) {
    complete(block, at);  // others have exited
  }
  if (detail.op == BarrierOp::kArrive) {
    if (wait.token == at.generation && awaits_its_warp(w, at)) return Step::kBlock;
    wait = {};
    return Step::kNext;
  }
  if (wait.token == at.generation) return Step::kBlock;
  leave(w, w.mask, meeting_of(block, at), wait.token, Leave::kHasWaited);
  wait = {};
  store_reduction(w, detail, at);
  return Step::kNext;
}

// ---- bar.warp.sync
// ---------------------------------------------------------------------------------

// Threads of a warp may meet at different bar.warp.sync instructions.
Step warp_barrier(Warp& w, const Insn& i) {
  Wait& wait = w.split->wait;
  if (wait.stage == kReleased) {
    wait = {};
    return Step::kNext;
  }
  const uint32_t members = w.source<uint32_t>(i.a)[std::countr_zero(w.mask)];
  const uint32_t* masks = w.source<uint32_t>(i.a);
  uint32_t others = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    if (masks[lane] != members) others |= 1u << lane;
    if ((masks[lane] >> lane & 1) == 0) {
      w.fail(FaultKind::kCheck, i, 1u << lane, "the member mask leaves out its own thread");
    }
  }
  if (others != 0) w.detach(others, w.split->pc);
  uint32_t here = w.mask;
  for (const auto& other : w.splits) {
    if (other->wait.stage == kArrived && other->wait.token == members &&
        other->frame->code->insns[other->pc].run == &warp_barrier) {
      here |= other->mask;
    }
  }
  if ((members & w.live() & ~here) != 0) {
    return w.block_on("at bar.warp.sync, for other threads of its member mask", kArrived, members);
  }
  sync_lanes(w, here & members);
  for (const auto& other : w.splits) {
    if (other.get() == w.split || other->wait.stage != kArrived || other->wait.token != members) {
      continue;
    }
    if (other->frame->code->insns[other->pc].run == &warp_barrier) other->wait.stage = kReleased;
  }
  w.block->cluster->notify();
  wait = {};
  return Step::kNext;
}

// ---- barrier.cluster
// -------------------------------------------------------------------------------

bool all_have_arrived(const Cluster& cluster) {
  for (const auto& block : cluster.blocks) {
    for (const auto& warp : block->warps) {
      if ((warp->live() & ~warp->cluster_arrived) != 0) return false;
    }
  }
  return true;
}

void complete_cluster_if_all(Cluster& cluster) {
  if (!all_have_arrived(cluster)) return;
  for (const auto& block : cluster.blocks) {
    for (const auto& warp : block->warps) warp->cluster_arrived = 0;
  }
  ++cluster.barrier_generation;
  if (cluster.monitor != nullptr) {
    for (const auto& block : cluster.blocks) cluster.monitor->add_ended(cluster_barrier(), *block);
    cluster.monitor->complete(cluster_barrier(), cluster.barrier_generation);
  }
  cluster.notify();
}

Step cluster_arrive(Warp& w, const Insn& i) {
  if (i.u8 != 0 && !gather_warp(w)) return Step::kBlock;
  Cluster& cluster = *w.block->cluster;
  for_each_lane(w.mask, [&](int lane) {
    if (w.cluster_arrival[lane] != 0) {
      w.fail(FaultKind::kCheck, i, 1u << lane,
             "barrier.cluster.arrive again without barrier.cluster.wait between");
    }
    w.cluster_arrival[lane] = cluster.barrier_generation + 1;
  });
  arrive(w, w.mask, cluster_barrier(), i.imm != 0);
  w.cluster_arrived |= w.mask;
  complete_cluster_if_all(cluster);
  return Step::kNext;
}

void leave_cluster_barrier(Warp& w) {
  for (uint32_t left = w.mask; left != 0;) {
    const uint64_t generation = w.cluster_arrival[std::countr_zero(left)];
    uint32_t same = 0;
    for_each_lane(left, [&](int lane) {
      same |= static_cast<uint32_t>(w.cluster_arrival[lane] == generation) << lane;
    });
    leave(w, same, cluster_barrier(), generation);
    left &= ~same;
  }
}

Step cluster_wait(Warp& w, const Insn& i) {
  if (i.u8 != 0 && !gather_warp(w)) return Step::kBlock;
  Cluster& cluster = *w.block->cluster;
  complete_cluster_if_all(cluster);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    if (w.cluster_arrival[lane] == 0) {
      w.fail(FaultKind::kCheck, i, 1u << lane, "barrier.cluster.wait without an arrive before");
    }
    if (cluster.barrier_generation < w.cluster_arrival[lane]) {
      return w.block_on("at barrier.cluster.wait");
    }
  }
  leave_cluster_barrier(w);
  for_each_lane(w.mask, [&](int lane) { w.cluster_arrival[lane] = 0; });
  return Step::kNext;
}

void decode_block_barrier(InsnDecoder& d, bool aligned) {
  const int op = d.take_one({"sync", "arrive", "red"});
  if (op < 0) d.fail("one of .sync, .arrive and .red is missing");
  BarrierDetail detail;
  detail.aligned = aligned;
  size_t at = 0;
  if (op == 1) detail.op = BarrierOp::kArrive;
  if (op == 2) {
    const int kind = d.take_one({"popc", "and", "or"});
    d.expect_type();
    detail.op = kind == 0   ? BarrierOp::kRedPopc
                : kind == 1 ? BarrierOp::kRedAnd
                            : BarrierOp::kRedOr;
    detail.result = kind == 0 ? d.target(0, ScalarType::kB32) : d.predicate_target(d.operand(0));
    at = 1;
    detail.predicate = d.predicate(d.operand(d.count() - 1));
  }
  d.expect_no_more();
  const size_t end = d.count() - (op == 2 ? 1 : 0);
  detail.id = d.source(at++, ScalarType::kB32);
  if (at < end) detail.threads = d.source(at, ScalarType::kB32);
  Insn& insn = d.emit(&barrier);
  insn.splits = true;
  d.detail<BarrierDetail>(insn, detail);
}

}  // namespace

void decode_bar(InsnDecoder& d) {
  if (!d.take("warp")) {
    d.take("cta");
    return decode_block_barrier(d, true);
  }
  d.take("sync");
  d.expect_no_more();
  const Slot members = d.source(0, ScalarType::kB32);
  Insn& insn = d.emit(&warp_barrier);
  insn.splits = true;
  insn.a = members;
}

void decode_barrier(InsnDecoder& d) {
  const bool cluster = d.take("cluster");
  d.take("cta");
  const bool aligned = d.take("aligned");
  if (!cluster) return decode_block_barrier(d, aligned);
  const int op = d.take_one({"arrive", "wait"});
  const bool is_relaxed = d.take_one({"relaxed", "release", "acquire"}) == 0;
  d.expect_no_more();
  Insn& insn = d.emit(op == 0 ? &cluster_arrive : &cluster_wait);
  insn.splits = true;
  insn.u8 = aligned ? 1 : 0;
  insn.imm = is_relaxed ? 1 : 0;
}

}  // namespace mpfa::sim
