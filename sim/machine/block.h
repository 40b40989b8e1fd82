// A thread block, the cluster that it belongs to, and the grid that they run for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/machine/code.h"
#include "sim/machine/gpu.h"
#include "sim/machine/mbarrier.h"
#include "sim/machine/random.h"
#include "sim/machine/warp.h"
#include "sim/machine/warpgroup.h"

namespace mpfa::sim {

class Monitor;
class Trace;
class Turns;
struct Cluster;

// Device memory in which the blocks of a cooperative launch count their arrivals. Kernels find its
// address in %envreg1 (high half) and %envreg2 (cooperative_groups/details/driver_abi.h).
struct GridWorkspace {
  uint32_t bytes = sizeof(GridWorkspace);
  uint32_t barrier = 0;
};

// What all blocks of a launch share.
struct Grid {
  const KernelCode* code = nullptr;
  const Kernel* kernel = nullptr;
  const DeviceModel* model = nullptr;
  GlobalMemory* memory = nullptr;
  Checks checks;
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  uint64_t params = 0;        // address of the parameter buffer
  uint64_t workspace = 0;     // address of a cooperative launch's GridWorkspace; 0: not cooperative
  uint64_t shared_bytes = 0;  // of a block, reserved part included
  uint64_t dynamic_shared_bytes = 0;
  uint64_t stack_bytes = 0;  // of a thread's local memory
  uint64_t id = 0;           // %gridid
  uint64_t seed = 0;
  Trace* trace = nullptr;
};

// barrier.cta's resource.
struct Barrier {
  uint64_t generation = 0;
  uint32_t arrived = 0;   // threads
  uint32_t counted = 0;   // threads of warps that have arrived whole, absent and ended ones too
  uint32_t expected = 0;  // of those; 0: all of the block
  // By warp: lanes that have arrived while others of their warp have not. Empty: none anywhere.
  std::vector<uint32_t> incomplete;
  // barrier.red
  uint32_t count = 0;
  bool all = true;
  bool any = false;
  uint32_t last_count = 0;
  bool last_all = true;
  bool last_any = false;
};

struct Block {
  Cluster* cluster = nullptr;
  const Grid* grid = nullptr;
  Dim3 position;      // %ctaid
  uint32_t rank = 0;  // %cluster_ctarank
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::byte> shared;
  std::array<Barrier, 16> barriers;
  std::vector<std::unique_ptr<Warpgroup>> warpgroups;  // made when one issues its first wgmma
  std::unordered_map<uint32_t, MBarrier> mbarriers;    // by offset in `shared`

  uint32_t shared_base() const;  // its window's first address
  uint32_t live_threads() const;
  bool finished() const;
};

// An operation that the hardware does on its own time: a copy, a wgmma.
struct AsyncOperation {
  uint64_t ready = 0;  // Cluster::clock from which it may complete
  std::function<void()> complete;
};

// The blocks that run together, on one host thread: nothing in here needs a lock.
struct Cluster {
  const Grid* grid = nullptr;
  uint64_t index = 0;
  Dim3 position;  // %clusterid
  std::vector<std::unique_ptr<Block>> blocks;
  Random random;
  uint64_t clock = 0;   // warp instructions of all its warps
  uint64_t events = 0;  // counts whatever can let a waiting warp go on
  std::vector<AsyncOperation> pending;
  std::unique_ptr<Monitor> monitor;  // nullptr: nothing is checked

  // barrier.cluster
  uint64_t barrier_generation = 0;

  Cluster(const Grid& owner, uint64_t number);
  ~Cluster();

  bool finished() const;
  // Runs for about `budget` warp instructions. Throws Fault, also for a deadlock.
  void run(uint64_t budget);
  void notify() { ++events; }
  // run(), as turn number `turn` of `turns`.
  void take_turn(Turns& turns, uint64_t turn, uint64_t budget);
  // To be called before anything that other clusters can see, or that sees what they do: atomics,
  // volatile and ordered accesses of global memory, output. Waits for the clusters before this one.
  void await_turn() {
    if (turns_ != nullptr) wait_for_turn();
  }
  // Counts what may be an attempt of a loop that waits for another cluster: after many of them the
  // turn ends.
  void count_poll(uint32_t weight) { polls_ += weight; }
  // Completes `operation` later: at once, as late as possible or in between, by the seed.
  void defer(std::function<void()> operation);
  // Completes everything that is pending.
  void drain();

 private:
  void wait_for_turn();
  bool complete_some(bool at_least_one);
  // Lets every timed wait go on. False if there is none, or if that has led to nothing too often.
  bool expire_waits();

  uint32_t polls_ = 0;      // in this turn
  Turns* turns_ = nullptr;  // until it has its turn
  uint64_t turn_ = 0;
  uint32_t expiries_ = 0;  // of waits, since anything else has happened
  uint64_t events_at_expiry_ = 0;
};

}  // namespace mpfa::sim
