#include "sim/machine/mbarrier.h"

#include <cstdio>
#include <cstring>

#include "mpfa/check.h"
#include "sim/machine/block.h"
#include "sim/machine/issuer.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

constexpr int kCountBits = 20;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr uint64_t kTxMask = (uint64_t{1} << (kCountBits + 1)) - 1;
// The top bits of a valid barrier, which neither zeros nor ones have.
constexpr uint64_t kTag = uint64_t{2} << 62;

std::string place_name(const Block& block, uint32_t offset) {
  char text[64];
  std::snprintf(text, sizeof(text), "0x%x of block %u's shared memory", offset, block.rank);
  return text;
}

}  // namespace

// ---- the object
// -----------------------------------------------------------------------------------

uint64_t MBarrier::encode() const {
  const uint64_t tx = static_cast<uint64_t>(int64_t{tx_count}) & kTxMask;
  return kTag | (phase & 1) | uint64_t{pending} << 1 | uint64_t{expected} << (1 + kCountBits) |
         tx << (1 + 2 * kCountBits);
}

std::string MBarrier::to_text() const {
  return internal::str_cat("phase ", phase, " (parity ", phase & 1, "), ", pending, " of ",
                           expected, " arrivals pending, tx-count ", tx_count);
}

MBarrierState MBarrierState::decode(uint64_t bits) {
  return {.phase = bits >> kCountBits, .pending = static_cast<uint32_t>(bits & kCountMask)};
}

uint64_t MBarrierState::encode() const { return phase << kCountBits | pending; }

// ---- operations
// -----------------------------------------------------------------------------------

void MBarrierAccess::fail(const std::string& what) const {
  issuer_.fail(FaultKind::kCheck,
               internal::str_cat("mbarrier at ", place_name(block_, offset_), ": ", what));
}

void MBarrierAccess::store(const MBarrier& barrier) {
  const uint64_t bits = barrier.encode();
  std::memcpy(block_.shared.data() + offset_, &bits, sizeof(bits));
}

MBarrier& MBarrierAccess::valid() {
  const auto found = block_.mbarriers.find(offset_);
  if (found == block_.mbarriers.end()) fail("not initialised (mbarrier.init)");
  uint64_t bits = 0;
  std::memcpy(&bits, block_.shared.data() + offset_, sizeof(bits));
  if (bits != found->second.encode()) {
    fail("overwritten: its 8 bytes are not what the last mbarrier operation has left there");
  }
  return found->second;
}

void MBarrierAccess::init(uint32_t count) {
  if (count == 0 || count > kMaxMBarrierCount) {
    fail(internal::str_cat("initialised with a count of ", count, "; it must be in 1 to ",
                           kMaxMBarrierCount));
  }
  // PTX ISA, mbarrier.init: undefined where a valid barrier is.
  const auto found = block_.mbarriers.find(offset_);
  if (found != block_.mbarriers.end() && block_.grid->checks.barriers) {
    uint64_t bits = 0;
    std::memcpy(&bits, block_.shared.data() + offset_, sizeof(bits));
    if (bits == found->second.encode()) {
      fail("initialised again; mbarrier.inval must come first. It is in " +
           found->second.to_text());
    }
  }
  MBarrier& barrier = block_.mbarriers[offset_];
  barrier = {.phase = 0, .expected = count, .pending = count, .tx_count = 0};
  store(barrier);
}

void MBarrierAccess::invalidate() {
  valid();
  block_.mbarriers.erase(offset_);
  std::memset(block_.shared.data() + offset_, 0, kMBarrierBytes);
  block_.cluster->notify();
}

void MBarrierAccess::add_tx(MBarrier& barrier, int64_t bytes) {
  const int64_t sum = barrier.tx_count + bytes;
  if (sum > kMaxMBarrierCount || sum < -kMaxMBarrierCount) {
    fail(internal::str_cat("the tx-count would become ", sum, "; it must stay within ",
                           -kMaxMBarrierCount, " to ", kMaxMBarrierCount));
  }
  barrier.tx_count = static_cast<int32_t>(sum);
}

void MBarrierAccess::expect_tx(uint32_t bytes, bool is_followed) {
  MBarrier& barrier = valid();
  add_tx(barrier, bytes);
  if (!is_followed) complete_if_due(barrier);
  store(barrier);
}

void MBarrierAccess::complete_tx(uint32_t bytes) {
  MBarrier& barrier = valid();
  arrive_async(issuer_.operation, *block_.cluster, mbarrier_at(block_, offset_));
  add_tx(barrier, -int64_t{bytes});
  complete_if_due(barrier);
  store(barrier);
}

MBarrierState MBarrierAccess::arrive(uint32_t count, MBarrierArrival kind, bool completes) {
  MBarrier& barrier = valid();
  const MBarrierState before = {.phase = barrier.phase, .pending = barrier.pending};
  if (count == 0 || count > barrier.pending) {
    fail(internal::str_cat("an arrival with a count of ", count, "; it must be in 1 to the ",
                           "pending arrivals. It is in ", barrier.to_text()));
  }
  if (kind == MBarrierArrival::kDrop) {
    if (count > barrier.expected) {
      fail(internal::str_cat("arrive_drop with a count of ", count, "; it must be at most the ",
                             "expected arrivals. It is in ", barrier.to_text()));
    }
    barrier.expected -= count;
  }
  const Meeting meeting = mbarrier_at(block_, offset_);
  if (issuer_.operation != nullptr) {
    arrive_async(issuer_.operation, *block_.cluster, meeting);
  } else {
    mpfa::sim::arrive(*issuer_.warp, issuer_.lanes, meeting, is_relaxed_);
  }
  barrier.pending -= count;
  if (!completes && barrier.pending == 0 && barrier.tx_count == 0) {
    fail("a .noComplete arrival completes its phase");
  }
  complete_if_due(barrier);
  store(barrier);
  return before;
}

void MBarrierAccess::add_pending() {
  MBarrier& barrier = valid();
  if (barrier.pending >= kMaxMBarrierCount) {
    fail(internal::str_cat("cp.async.mbarrier.arrive: there are ", barrier.pending,
                           " pending arrivals, the most that can be"));
  }
  ++barrier.pending;
  store(barrier);
}

void MBarrierAccess::complete_if_due(MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.tx_count != 0) return;
  complete(*block_.cluster, mbarrier_at(block_, offset_), barrier.phase);
  ++barrier.phase;
  barrier.pending = barrier.expected;
  block_.cluster->notify();
}

// ---- waiting
// --------------------------------------------------------------------------------------

namespace {
constexpr int kTokenPhaseShift = 32;
}

uint64_t mbarrier_wait_token(uint32_t offset, uint64_t phase_parity) {
  return offset | (phase_parity & 1) << kTokenPhaseShift;
}

std::string describe_mbarrier_wait(const Warp& warp, const Wait& wait) {
  const auto offset = static_cast<uint32_t>(wait.token);
  const auto found = warp.block->mbarriers.find(offset);
  const std::string state =
      found == warp.block->mbarriers.end() ? "no longer valid" : found->second.to_text();
  return internal::str_cat("at the mbarrier at ", place_name(*warp.block, offset),
                           ", for the end of a phase of parity ", wait.token >> kTokenPhaseShift,
                           "; it is in ", state);
}

}  // namespace mpfa::sim
