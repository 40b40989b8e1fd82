// mbarrier objects (PTX ISA, "mbarrier"): 8 bytes of shared memory that count arrivals and bytes.
#pragma once

#include <cstdint>
#include <string>

namespace mpfa::sim {

struct Block;
struct Issuer;
struct Wait;
struct Warp;

// Of expected and pending arrivals; the tx-count lies between plus and minus this.
constexpr int64_t kMaxMBarrierCount = (int64_t{1} << 20) - 1;
constexpr uint32_t kMBarrierBytes = 8;

// The state of a barrier. Programs must not look into its 8 bytes, which hold encode(): that is how
// a barrier is found that was never initialised, or that other writes have hit.
struct MBarrier {
  uint64_t phase = 0;     // phases completed
  uint32_t expected = 0;  // arrivals in the next phase
  uint32_t pending = 0;   // arrivals that this phase still lacks
  int32_t tx_count = 0;   // bytes that this phase still lacks; negative where they came early

  uint64_t encode() const;
  // "phase 3 (parity 1), 1 of 128 arrivals pending, tx-count 0"
  std::string to_text() const;
};

// What mbarrier.arrive returns: the phase and the pending arrivals before it.
struct MBarrierState {
  uint64_t phase = 0;
  uint32_t pending = 0;

  static MBarrierState decode(uint64_t bits);
  uint64_t encode() const;
};

enum class MBarrierArrival : uint8_t {
  kArrive,
  kDrop,  // the next phases expect fewer arrivals, too
};

// One barrier as an instruction, or an operation that it has started, uses it. Everything but init
// throws Fault if no valid barrier is there. What completes the phase wakes those that wait.
class MBarrierAccess {
 public:
  MBarrierAccess(Block& block, uint32_t offset, const Issuer& issuer)
      : block_(block), offset_(offset), issuer_(issuer) {}

  // .relaxed: arrivals order no memory accesses.
  void set_relaxed() { is_relaxed_ = true; }

  void init(uint32_t count);
  void invalidate();
  const MBarrier& get() { return valid(); }

  // Completes the phase where all has arrived and the bytes came before (the PTX ISA does not say
  // so, but an H200 does), unless an arrival follows in the same operation.
  void expect_tx(uint32_t bytes, bool is_followed = false);
  void complete_tx(uint32_t bytes);
  // `completes` is false for .noComplete, which must not complete the phase.
  MBarrierState arrive(uint32_t count, MBarrierArrival kind = MBarrierArrival::kArrive,
                       bool completes = true);
  // What cp.async.mbarrier.arrive does at once: this phase waits for one arrival more.
  void add_pending();

 private:
  MBarrier& valid();
  void store(const MBarrier& barrier);
  void add_tx(MBarrier& barrier, int64_t bytes);
  void complete_if_due(MBarrier& barrier);
  [[noreturn]] void fail(const std::string& what) const;

  Block& block_;
  uint32_t offset_;
  const Issuer& issuer_;
  bool is_relaxed_ = false;
};

// For the report of a deadlock: a Wait whose token is mbarrier_wait_token().
uint64_t mbarrier_wait_token(uint32_t offset, uint64_t phase_parity);
std::string describe_mbarrier_wait(const Warp& warp, const Wait& wait);

}  // namespace mpfa::sim
