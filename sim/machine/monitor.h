// The checks of shared memory: races, reads of what nothing has written, data that an asynchronous
// operation uses at the same time, blocks that end before their peers' accesses.
//
// Instructions tell it what they do by the functions at the end, which cost one branch where the
// checks are off (Checks::none()):
//   - every access of a thread: observe(), before it is done;
//   - every barrier of whatever kind ("meeting"): arrive(), then complete() when its phase ends,
//     then leave() for each thread that goes on. An mbarrier operation first observe()s its access
//     (AccessKind::kAtomic; mbarrier.init: kWrite), then arrives;
//   - an operation that a thread only starts: start_async(), observe_async() for each piece of
//     shared memory when it is touched, then arrive_async() at the mbarrier that counts it (after
//     that, complete() if this ends the phase) or finish_async() when threads have waited for it;
//   - fences, bar.warp.sync and other instructions that make the lanes of a warp wait.
//
// What orders two accesses (PTX ISA, "Memory Consistency Model"):
//   - program order; bar and barrier (also .arrive before .sync); bar.warp.sync;
//     barrier.cluster.arrive.release before .wait.acquire; mbarrier arrivals before waits;
//   - a release pattern at an address before an acquire pattern at it: st.release, or a fence and
//     then a volatile, relaxed or atomic write; ld.acquire, or such a read and then a fence. Scopes
//     are taken to be wide enough;
//   - shfl.sync, vote.sync, match.sync, redux.sync, elect.sync and .aligned instructions order no
//     memory (CUDA C++ Programming Guide, "Warp Shuffle Functions": no memory barrier is implied),
//     but they make lanes wait: a read before one is over for writes behind it, which CUB relies
//     on. A write before one and a read behind it race. Relaxed arrivals are treated alike.
// Converged lanes are not ordered otherwise: code that relies on lockstep is reported.
//
// What is a race: two unordered accesses of different threads to the same byte, one of them a
// write, unless both are volatile, relaxed or atomic, or both are weak st and the later one writes
// what the earlier one has left there: programs do that, and compute-sanitizer's racecheck tells of
// it for information only. A read that is unordered with either of them is a race all the same.
// Lanes of one store instruction may write the same byte (one of them wins). Accesses to global
// memory are not checked, but order as above.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/machine/block.h"
#include "sim/machine/happens_before.h"
#include "sim/machine/memory_access.h"
#include "sim/machine/shared_shadow.h"

namespace mpfa::sim {

// By which way an asynchronous operation reaches memory (PTX ISA, "Proxies"): cp.async and st.async
// by the generic one, cp.async.bulk and tensor copies by the asynchronous one; wgmma, too, but it
// is over before the threads that have started it end.
enum class Proxy : uint8_t { kGeneric, kAsync, kTensorCore };

// An operation that a thread has started. nullptr where the checks are off.
struct AsyncStart {
  Past past;  // of who started it
  Agent agent = 0;
  uint32_t clock = 0;
  uint32_t place = 0;
  uint32_t origin = 0;
  Proxy proxy = Proxy::kGeneric;
};
using AsyncHandle = std::shared_ptr<AsyncStart>;

// Names a barrier of a cluster.
using Meeting = uint64_t;
inline Meeting block_barrier(const Block& block, uint32_t id) {
  return uint64_t{1} << 62 | uint64_t{block.rank} << 8 | id;
}
inline Meeting cluster_barrier() { return uint64_t{2} << 62; }
inline Meeting mbarrier_at(const Block& block, uint32_t offset) {
  return block.shared_base() | offset;
}

// How threads go on from a meeting.
enum class Leave : uint8_t {
  kAcquires,
  kHasWaited,  // the same, and since their own arrival in this phase they have done nothing else
  kRelaxed,
};

class Monitor {
 public:
  explicit Monitor(Cluster& cluster);

  void observe(Warp& warp, const Insn& insn, const Access& access);
  // Bytes that something writes that is not observed.
  void mark_written(const Block& block, uint64_t offset, uint64_t bytes);

  // ---- meetings; `generation` counts a barrier's phases.
  void arrive(Warp& warp, uint32_t lanes, Meeting at, bool is_relaxed);
  void complete(Meeting at, uint64_t generation);
  void leave(Warp& warp, uint32_t lanes, Meeting at, uint64_t generation, Leave how);
  // The accesses of threads of `block` that have ended come before the phase's end.
  void add_ended(Meeting at, const Block& block);

  // ---- asynchronous operations
  AsyncHandle start_async(Warp& warp, const Insn& insn, uint32_t lanes, Proxy proxy);
  // Another warp takes part, as in wgmma.
  void join_async(AsyncStart& operation, Warp& warp, uint32_t lanes);
  // `may_be_unwritten`: what it reads does not matter.
  void observe_async(const AsyncStart& operation, const Block& block, uint64_t offset,
                     uint64_t bytes, AccessKind kind, bool may_be_unwritten);
  void arrive_async(const AsyncStart& operation, Meeting at);
  // `reads_only` for .read waits, after which sources may be written.
  void finish_async(Warp& warp, uint32_t lanes, const std::vector<AsyncHandle>& operations,
                    bool reads_only);

  // ---- within a warp
  void sync_lanes(Warp& warp, uint32_t lanes);
  void order_reads(Warp& warp, uint32_t lanes);
  void fence(Warp& warp);
  void proxy_fence(Warp& warp);
  // The running split ends.
  void end_threads(Warp& warp);

 private:
  struct Phase {
    uint64_t generation = UINT64_MAX;
    PerRelation<KnowledgePtr> sums;
  };
  struct Phases {
    Gathered arriving;
    std::array<Phase, 4> complete;  // the last ones
    Gathered older;                 // for threads that have not left even older ones yet
  };
  struct Lanes;
  struct SharedAccess;

  Agent agent_of(const Warp& warp) const {
    return static_cast<Agent>(warp.block->rank * warps_per_block_ + warp.index);
  }
  bool is_async(Agent agent) const { return agent >= warp_count_; }
  SharedShadow& shadow(const Block& block);
  static uint32_t place_of(const Warp& warp, const Insn& insn);
  // Lanes that do not exist go with those that do.
  static uint32_t with_absent(const Warp& warp, uint32_t lanes);
  static PerRelation<KnowledgePtr> sums_of(const Gathered& gathered);

  void observe_shared(Warp& warp, const Insn& insn, const Access& access, const Lanes& lanes);
  void touch_lanes(const Warp& warp, uint32_t members, SharedAccess& access);
  void touch_place(const Warp& warp, uint32_t at, SharedAccess& access);
  void touch_words(const Block& block, SharedShadow& shadow, uint32_t first, uint32_t count,
                   SharedAccess& access);
  static uint32_t place_in_lane(uint32_t cell, uint32_t byte, const SharedAccess& access);
  void note_unwritten(const Block& block, uint32_t cell, uint8_t bytes, SharedAccess& access) const;
  static uint8_t undefined_part(uint32_t cell, uint8_t bytes, const SharedAccess& access);
  void touch(const Block& block, SharedShadow& shadow, uint32_t cell, uint8_t bytes,
             SharedAccess& access);
  bool may_overwrite(const Block& block, const SharedShadow& shadow, uint32_t cell,
                     const PastAccess& past, const SharedAccess& access);
  bool knows_hidden_reads(const PastAccess& past, const SharedAccess& access);
  void record_overlapping(const WarpOrder& order, const Lanes& lanes, SharedAccess& access);
  void synchronize(Warp& warp, const Access& access, uint32_t lanes, const uint64_t* keys);
  void note_visit(const Block& block, const PastAccess& access);
  void check_visitors(const Warp& warp);
  Gathered& flag(uint64_t key);

  void add_finished(const AsyncStart& operation, bool reads_only, Gathered& sum);

  // ---- reports (monitor_report.cc)
  [[noreturn]] void report_race(const Block& block, uint32_t cell, const PastAccess& now,
                                const PastAccess& before, bool lacks_proxy_fence) const;
  std::string unwritten_text(const Block& block, uint32_t cell, const PastAccess& now) const;
  [[noreturn]] void report_unwritten(const Block& block, uint32_t cell,
                                     const PastAccess& now) const;
  [[noreturn]] void report_early_end(const Warp& warp, const PastAccess& visit) const;
  // What it is, and where it stands.
  std::string verb(const PastAccess& access) const;
  std::string where(const PastAccess& access) const;
  const FunctionCode& code_of(uint32_t place) const;

  Cluster& cluster_;
  const Checks& checks_;
  bool records_;  // accesses, not only which bytes are written
  uint32_t warps_per_block_;
  uint32_t warp_count_;
  HappensBefore order_;
  std::vector<std::unique_ptr<SharedShadow>> shadows_;  // by rank, made when first needed
  std::unordered_map<Meeting, Phases> meetings_;
  std::unordered_map<uint64_t, Gathered> flags_;  // what was released at an address
  bool any_fence_ = false;
  std::vector<Gathered> ended_;                    // by rank: what ended threads knew
  std::vector<std::vector<PastAccess>> visitors_;  // by rank: last accesses of others
  std::vector<uint32_t> async_clocks_;             // by slot
  uint32_t next_slot_ = 0;
};

// ---- what instructions call

inline void observe(Warp& warp, const Insn& insn, const Access& access) {
  if (warp.monitor != nullptr) [[unlikely]] {
    warp.monitor->observe(warp, insn, access);
  }
}

// The same for one lane of an instruction that does not go through resolve().
void observe_place(Warp& warp, const Insn& insn, int lane, const Block& block, uint64_t offset,
                   uint32_t bytes, AccessKind kind);

inline void arrive(Warp& warp, uint32_t lanes, Meeting at, bool is_relaxed = false) {
  if (warp.monitor != nullptr) warp.monitor->arrive(warp, lanes, at, is_relaxed);
}
inline void complete(Cluster& cluster, Meeting at, uint64_t generation) {
  if (cluster.monitor != nullptr) cluster.monitor->complete(at, generation);
}
inline void leave(Warp& warp, uint32_t lanes, Meeting at, uint64_t generation,
                  Leave how = Leave::kAcquires) {
  if (warp.monitor != nullptr) warp.monitor->leave(warp, lanes, at, generation, how);
}

inline AsyncHandle start_async(Warp& warp, const Insn& insn, uint32_t lanes, Proxy proxy) {
  return warp.monitor == nullptr ? nullptr : warp.monitor->start_async(warp, insn, lanes, proxy);
}
inline void observe_async(const AsyncHandle& operation, const Block& block, uint64_t offset,
                          uint64_t bytes, AccessKind kind, bool may_be_unwritten = false) {
  if (operation == nullptr) return;
  block.cluster->monitor->observe_async(*operation, block, offset, bytes, kind, may_be_unwritten);
}
inline void arrive_async(const AsyncHandle& operation, Cluster& cluster, Meeting at) {
  if (operation != nullptr) cluster.monitor->arrive_async(*operation, at);
}
inline void finish_async(Warp& warp, uint32_t lanes, const std::vector<AsyncHandle>& operations,
                         bool reads_only) {
  if (warp.monitor != nullptr) warp.monitor->finish_async(warp, lanes, operations, reads_only);
}

inline void sync_lanes(Warp& warp, uint32_t lanes) {
  if (warp.monitor != nullptr) warp.monitor->sync_lanes(warp, lanes);
}
inline void order_reads(Warp& warp, uint32_t lanes) {
  if (warp.monitor != nullptr) warp.monitor->order_reads(warp, lanes);
}

}  // namespace mpfa::sim
