#include "sim/machine/grid_runner.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/machine/turns.h"
#include "sim/machine/workers.h"

namespace mpfa::sim {
namespace {

// A turn in warp instructions: long enough to keep a cluster's registers in the host's caches and
// for most clusters to end in their first one.
constexpr uint64_t kTurn = 200'000;

// A cluster that has started, or will in its first turn.
struct Member {
  uint64_t index = 0;
  std::unique_ptr<Cluster> cluster;
  bool finished = false;
};

class Round {
 public:
  Round(const Grid& grid, std::vector<Member>& members)
      : grid_(grid), members_(members), turns_(members.size()) {}

  // Returns when every member has had its turn, or a fault stops the round.
  void run(Workers& workers) {
    workers.run([this] { work(); });
    if (fault_) std::rethrow_exception(fault_);
  }

  uint64_t instructions() const { return instructions_; }

 private:
  void work() {
    for (;;) {
      // In order: whoever waits for a turn waits for one that is running.
      const uint64_t turn = next_++;
      if (turn >= members_.size()) return;
      if (turn <= first_fault_) run_member(turn);
      turns_.end(turn);
    }
  }

  void run_member(uint64_t turn) {
    Member& member = members_[turn];
    try {
      if (!member.cluster) member.cluster = std::make_unique<Cluster>(grid_, member.index);
      const uint64_t before = member.cluster->clock;
      member.cluster->take_turn(turns_, turn, kTurn);
      instructions_ += member.cluster->clock - before;
      member.finished = member.cluster->finished();
    } catch (...) {
      keep_fault(turn);
    }
    if (member.finished) member.cluster.reset();
  }

  // The first member's fault is the one that a single thread would have met.
  void keep_fault(uint64_t turn) {
    const std::lock_guard lock(mutex_);
    if (fault_ && turn > first_fault_) return;
    fault_ = std::current_exception();
    first_fault_ = turn;
  }

  const Grid& grid_;
  std::vector<Member>& members_;
  Turns turns_;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<uint64_t> instructions_ = 0;
  std::atomic<uint64_t> first_fault_ = UINT64_MAX;
  std::mutex mutex_;
  std::exception_ptr fault_;
};

}  // namespace

uint64_t run_grid(const Grid& grid, uint64_t resident, int threads) {
  const uint64_t count = grid.grid.count() / grid.cluster.count();
  Workers workers(static_cast<int>(std::min(count, static_cast<uint64_t>(threads))));
  uint64_t instructions = 0;
  uint64_t next = 0;
  std::vector<Member> members;
  while (next < count || !members.empty()) {
    while (next < count && members.size() < resident) members.push_back({next++, nullptr, false});
    Round round(grid, members);
    round.run(workers);
    instructions += round.instructions();
    std::erase_if(members, [](const Member& member) { return member.finished; });
  }
  return instructions;
}

}  // namespace mpfa::sim
