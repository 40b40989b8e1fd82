// The order in which the clusters of a grid may touch what they share.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace mpfa::sim {

// Clusters run in rounds, one turn each, on any number of host threads. What a cluster does by
// itself may overlap with others; before it does something that others can see or that it sees of
// them (atomics, volatile and ordered accesses, printf), it waits for the clusters before it to end
// their turn. So the results of programs without data races are those of one thread that runs turn
// after turn (Olszewski, Ansel, Amarasinghe: "Kendo", ASPLOS 2009).
class Turns {
 public:
  explicit Turns(uint64_t count) : ended_(count, false) {}

  // Waits until all turns before number `turn` have ended.
  void wait_for(uint64_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return first_running_ >= turn; });
  }
  void end(uint64_t turn) {
    {
      const std::lock_guard lock(mutex_);
      ended_[turn] = true;
      while (first_running_ < ended_.size() && ended_[first_running_]) ++first_running_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
  uint64_t first_running_ = 0;
};

}  // namespace mpfa::sim
