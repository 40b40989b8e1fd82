// mbarrier.*: barriers in shared memory.
#include "sim/machine/mbarrier.h"

#include <cstdint>
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/shared_place.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/issuer.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

// A thread that has asked so often in vain since anything has happened waits, as in try_wait.
constexpr uint32_t kMostIdlePolls = 256;
// One try_wait in so many gives up at once where the phase is not complete, as hardware may.
constexpr uint64_t kEarlyGiveUp = 4;

struct MBarrierDetail : InsnDetail {
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  AccessKind access = AccessKind::kAtomic;
  bool is_relaxed = false;
  Slot value = kNoSlot;  // the count, bytes, state or parity
  Slot state = kNoSlot;  // the result of an arrival; kNoSlot: not wanted
  // Of arrivals:
  MBarrierArrival kind = MBarrierArrival::kArrive;
  bool completes = true;
  bool expects = false;  // .expect_tx: `value` is bytes, the count 1
  // Of waits:
  bool is_parity = false;
  bool is_try = false;
};

// Runs `of(lane, barrier, place)` for every active lane. The checks hear of the accesses unless
// they have already, when the instruction was first tried.
template <class F>
void for_each_barrier(Warp& w, const Insn& i, const MBarrierDetail& d, F of,
                      bool is_observed = false) {
  uint64_t addresses[kWarpSize];
  lane_addresses(w, d.address, addresses);
  SharedPlace places[kWarpSize];
  for_each_lane(w.mask, [&](int lane) {
    places[lane] = shared_place(w, i, lane, d.space, AccessKind::kAtomic, addresses[lane],
                                kMBarrierBytes, kMBarrierBytes);
    addresses[lane] = places[lane].address();
  });
  if (!is_observed) {
    observe(w, i,
            {.space = MemorySpace::kSharedCluster,
             .kind = d.access,
             .bytes = kMBarrierBytes,
             .addresses = addresses,
             .may_be_unwritten = true});
  }
  for_each_lane(w.mask, [&](int lane) {
    const SharedPlace& at = places[lane];
    const Issuer issuer = Issuer::of(w, i, 1u << lane);
    of(lane, MBarrierAccess(*at.block, at.offset, issuer), at);
  });
}

uint32_t value_of(const Warp& w, const MBarrierDetail& d, int lane) {
  return d.value == kNoSlot ? 1 : w.source<uint32_t>(d.value)[lane];
}

Step init(Warp& w, const Insn& i) {
  const auto& d = static_cast<const MBarrierDetail&>(*i.detail);
  for_each_barrier(w, i, d, [&](int lane, MBarrierAccess barrier, const SharedPlace&) {
    barrier.init(value_of(w, d, lane));
  });
  return Step::kNext;
}

Step invalidate(Warp& w, const Insn& i) {
  const auto& d = static_cast<const MBarrierDetail&>(*i.detail);
  for_each_barrier(w, i, d,
                   [&](int, MBarrierAccess barrier, const SharedPlace&) { barrier.invalidate(); });
  return Step::kNext;
}

Step expect_tx(Warp& w, const Insn& i) {
  const auto& d = static_cast<const MBarrierDetail&>(*i.detail);
  for_each_barrier(w, i, d, [&](int lane, MBarrierAccess barrier, const SharedPlace&) {
    barrier.expect_tx(value_of(w, d, lane));
  });
  return Step::kNext;
}

Step complete_tx(Warp& w, const Insn& i) {
  const auto& d = static_cast<const MBarrierDetail&>(*i.detail);
  for_each_barrier(w, i, d, [&](int lane, MBarrierAccess barrier, const SharedPlace&) {
    barrier.complete_tx(value_of(w, d, lane));
  });
  return Step::kNext;
}

Step arrive(Warp& w, const Insn& i) {
  const auto& d = static_cast<const MBarrierDetail&>(*i.detail);
  for_each_barrier(w, i, d, [&](int lane, MBarrierAccess barrier, const SharedPlace&) {
    const uint32_t value = value_of(w, d, lane);
    // PTX ISA, mbarrier.arrive: expect-tx comes first, then the arrival.
    if (d.expects) barrier.expect_tx(value, true);
    if (d.is_relaxed) barrier.set_relaxed();
    const MBarrierState state = barrier.arrive(d.expects ? 1 : value, d.kind, d.completes);
    if (d.state != kNoSlot) w.target<uint64_t>(d.state)[lane] = state.encode();
  });
  return Step::kNext;
}

Step pending_count(Warp& w, const Insn& i) {
  const uint64_t* states = w.source<uint64_t>(i.a);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for_each_lane(w.mask, [&](int lane) { to[lane] = MBarrierState::decode(states[lane]).pending; });
  return Step::kNext;
}

// ---- waiting
// --------------------------------------------------------------------------------------

// Whether the phase that `state` names is over. PTX ISA, mbarrier.test_wait: it must be the current
// phase or the one before.
bool is_over(Warp& w, const Insn& i, int lane, const MBarrier& barrier, uint64_t state_bits) {
  const uint64_t phase = MBarrierState::decode(state_bits).phase;
  const bool is_known = phase == barrier.phase || phase + 1 == barrier.phase;
  if (!is_known && w.block->grid->checks.barriers) {
    w.fail(FaultKind::kCheck, i, 1u << lane,
           "waits with a state of phase " + std::to_string(phase) +
               "; it must be of the current phase or the one before. The mbarrier is in " +
               barrier.to_text());
  }
  return ((phase ^ barrier.phase) & 1) != 0;
}

// Tells the checks of lanes that leave a barrier, those of the same one together.
struct Leaving {
  Warp& warp;
  Leave how;
  uint32_t lanes = 0;
  Meeting at = 0;
  uint64_t generation = 0;

  void add(int lane, Meeting barrier, uint64_t phase) {
    if (lanes != 0 && (barrier != at || phase != generation)) finish();
    lanes |= 1u << lane;
    at = barrier;
    generation = phase;
  }
  void finish() {
    if (lanes != 0) leave(warp, lanes, at, generation, how);
    lanes = 0;
  }
};

// The active lanes' answers, and for the report of a deadlock what the first false one waits for.
uint32_t ask(Warp& w, const Insn& i, const MBarrierDetail& d, uint64_t& token) {
  uint32_t over = 0;
  bool first = true;
  Leaving left = {w, d.is_relaxed ? Leave::kRelaxed : Leave::kAcquires};
  const auto ask_one = [&](int lane, MBarrierAccess access, const SharedPlace& at) {
    if (at.block != w.block) {
      w.fail(FaultKind::kCheck, i, 1u << lane,
             "waits for an mbarrier of another block of the cluster; only its own may be waited "
             "for");
    }
    const MBarrier& barrier = access.get();
    uint64_t parity = barrier.phase & 1;
    bool is_complete = false;
    if (d.is_parity) {
      parity = w.source<uint32_t>(d.value)[lane];
      if (parity > 1) {
        w.fail(FaultKind::kCheck, i, 1u << lane,
               "waits for a phase parity of " + std::to_string(parity) + "; it must be 0 or 1");
      }
      is_complete = (barrier.phase & 1) != parity;
    } else {
      is_complete = is_over(w, i, lane, barrier, w.source<uint64_t>(d.value)[lane]);
    }
    over |= static_cast<uint32_t>(is_complete) << lane;
    if (is_complete) left.add(lane, mbarrier_at(*at.block, at.offset), barrier.phase - 1);
    if (!is_complete && first) {
      token = mbarrier_wait_token(at.offset, parity);
      first = false;
    }
  };
  for_each_barrier(w, i, d, ask_one, w.split->wait.is_timed);
  left.finish();
  return over;
}

// Whether a thread that is not to be blocked has asked in vain for too long.
bool polls_idly(Warp& w) {
  const uint64_t events = w.block->cluster->events;
  if (w.poll_events != events) w.polls = 0;
  w.poll_events = events;
  return ++w.polls > kMostIdlePolls;
}

Step answer(Warp& w, const MBarrierDetail& d, uint32_t over, Step step) {
  w.set_predicate(d.state, over);
  return step;
}

Step wait(Warp& w, const Insn& i) {
  const auto& d = static_cast<const MBarrierDetail&>(*i.detail);
  uint64_t token = 0;
  const uint32_t over = ask(w, i, d, token);
  if (over == w.mask) return answer(w, d, over, Step::kNext);
  // Some are done: the others come back, if they ask again.
  if (over != 0) return answer(w, d, over, Step::kYield);
  Wait& waiting = w.split->wait;
  if (waiting.has_expired) return answer(w, d, 0, Step::kYield);
  const bool has_waited = waiting.is_timed;
  const bool blocks =
      has_waited || polls_idly(w) || (d.is_try && !w.block->cluster->random.one_in(kEarlyGiveUp));
  if (!blocks) return answer(w, d, 0, Step::kYield);
  w.block_on("at an mbarrier", 0, token);
  waiting.is_timed = true;
  waiting.describe = &describe_mbarrier_wait;
  return Step::kBlock;
}

// ---- decoding
// -------------------------------------------------------------------------------------

// .shared, .shared::cta, .shared::cluster or none.
MemorySpace take_barrier_space(InsnDecoder& d, bool cluster_allowed) {
  const int space = d.take_one({"shared::cluster", "shared::cta", "shared"});
  if (space == 0 && !cluster_allowed) d.fail(".shared::cluster is not allowed here");
  return space < 0    ? MemorySpace::kGeneric
         : space == 0 ? MemorySpace::kSharedCluster
                      : MemorySpace::kShared;
}

// Takes .release.cta and the like.
void take_order(InsnDecoder& d, std::initializer_list<std::string_view> orders) {
  const bool has_order = d.take_one(orders) >= 0;
  const bool has_scope = d.take_one({"cta", "cluster"}) >= 0;
  if (has_order != has_scope) d.fail("memory order and scope go together");
}

void expect_b64(InsnDecoder& d) {
  if (!d.take("b64")) d.fail("the type must be .b64");
  d.expect_no_more();
}

void expect_operands(InsnDecoder& d, size_t least, size_t most) {
  if (d.count() < least || d.count() > most) {
    d.fail("there are " + std::to_string(d.count()) + " operands; there must be " +
           std::to_string(least) + (least == most ? "" : " to " + std::to_string(most)));
  }
}

void emit_barrier(InsnDecoder& d, Handler handler, const MBarrierDetail& detail,
                  bool splits = false) {
  Insn& insn = d.emit(handler);
  insn.splits = splits;
  d.detail<MBarrierDetail>(insn, detail);
}

// init and inval.
void decode_life(InsnDecoder& d, bool is_init) {
  MBarrierDetail detail;
  // What uses a barrier behind its end is found by itself, and cuda::pipeline's last thread ends it
  // with no more order after the others than their atomic operations have.
  detail.access = is_init ? AccessKind::kWrite : AccessKind::kAtomic;
  detail.space = take_barrier_space(d, false);
  expect_b64(d);
  expect_operands(d, is_init ? 2 : 1, is_init ? 2 : 1);
  detail.address = d.address(0);
  if (is_init) detail.value = d.source(1, ScalarType::kB32);
  emit_barrier(d, is_init ? &init : &invalidate, detail);
}

// expect_tx and complete_tx.
void decode_tx(InsnDecoder& d, Handler handler) {
  MBarrierDetail detail;
  take_order(d, {"relaxed"});
  detail.space = take_barrier_space(d, true);
  expect_b64(d);
  expect_operands(d, 2, 2);
  detail.address = d.address(0);
  detail.value = d.source(1, ScalarType::kB32);
  emit_barrier(d, handler, detail);
}

void decode_arrive(InsnDecoder& d, MBarrierArrival kind) {
  MBarrierDetail detail;
  detail.kind = kind;
  detail.expects = d.take("expect_tx");
  detail.completes = !d.take("noComplete");
  detail.is_relaxed = order_of(d) == MemoryOrder::kRelaxed;
  take_order(d, {"release", "relaxed"});
  detail.space = take_barrier_space(d, true);
  expect_b64(d);
  // Before the address stands the state or _; of a remote barrier nothing may stand there.
  const size_t at = d.operand(0).kind == OperandKind::kAddress ? 0 : 1;
  const bool needs_value = detail.expects || !detail.completes;
  expect_operands(d, at + (needs_value ? 2 : 1), at + 2);
  if (at == 1 && d.operand(0).kind != OperandKind::kSink) {
    if (detail.space == MemorySpace::kSharedCluster) {
      d.fail("an arrival at .shared::cluster has no result; it must be _");
    }
    detail.state = d.target(0, ScalarType::kB64);
  }
  detail.address = d.address(at);
  if (d.count() > at + 1) detail.value = d.source(at + 1, ScalarType::kB32);
  emit_barrier(d, &arrive, detail);
}

void decode_wait(InsnDecoder& d, bool is_try) {
  MBarrierDetail detail;
  detail.is_try = is_try;
  detail.is_parity = d.take("parity");
  detail.is_relaxed = order_of(d) == MemoryOrder::kRelaxed;
  take_order(d, {"acquire", "relaxed"});
  detail.space = take_barrier_space(d, false);
  expect_b64(d);
  expect_operands(d, 3, is_try ? 4 : 3);
  detail.state = d.predicate_target(d.operand(0));
  detail.address = d.address(1);
  detail.value = d.source(2, detail.is_parity ? ScalarType::kB32 : ScalarType::kB64);
  emit_barrier(d, &wait, detail, true);
}

void decode_pending_count(InsnDecoder& d) {
  expect_b64(d);
  expect_operands(d, 2, 2);
  const Slot state = d.source(1, ScalarType::kB64);
  const Slot to = d.target(0, ScalarType::kB32);
  Insn& insn = d.emit(&pending_count);
  insn.dst = to;
  insn.a = state;
}

}  // namespace

void decode_mbarrier(InsnDecoder& d) {
  const std::string operation = d.take_first();
  if (operation == "init") return decode_life(d, true);
  if (operation == "inval") return decode_life(d, false);
  if (operation == "expect_tx") return decode_tx(d, &expect_tx);
  if (operation == "complete_tx") return decode_tx(d, &complete_tx);
  if (operation == "arrive") return decode_arrive(d, MBarrierArrival::kArrive);
  if (operation == "arrive_drop") return decode_arrive(d, MBarrierArrival::kDrop);
  if (operation == "test_wait") return decode_wait(d, false);
  if (operation == "try_wait") return decode_wait(d, true);
  if (operation == "pending_count") return decode_pending_count(d);
  d.fail("mbarrier." + operation + " is not known");
}

}  // namespace mpfa::sim
