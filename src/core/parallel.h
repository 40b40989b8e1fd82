// Loops over oneTBB's threads: the only place where the project meets the library.
//
// The atomics state, for ThreadSanitizer, the ordering that oneTBB guarantees but that its
// uninstrumented library hides: every task begins after, and ends before, the call that runs it.
#pragma once

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace mpfa::internal {

// A loop's place in the order; its end is after all tasks, left by an exception too.
class LoopOrder {
 public:
  LoopOrder() { order_.store(1, std::memory_order_release); }
  ~LoopOrder() { order_.load(std::memory_order_acquire); }
  LoopOrder(const LoopOrder&) = delete;
  LoopOrder& operator=(const LoopOrder&) = delete;

  void begin_task() { order_.load(std::memory_order_acquire); }
  void end_task() { order_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<int> order_{0};
};

// A task's place in it, likewise.
class TaskOrder {
 public:
  explicit TaskOrder(LoopOrder& loop) : loop_(loop) { loop_.begin_task(); }
  ~TaskOrder() { loop_.end_task(); }
  TaskOrder(const TaskOrder&) = delete;
  TaskOrder& operator=(const TaskOrder&) = delete;

 private:
  LoopOrder& loop_;
};

// Calls fn(begin, end) for consecutive stretches of [0, count), each of at most `grain` indices.
// Where the stretches fall may differ from run to run: a result must not depend on it.
template <typename Fn>
void parallel_for_ranges(int64_t count, int64_t grain, const Fn& fn) {
  if (count <= 0) return;
  if (count <= grain) {
    fn(int64_t{0}, count);
    return;
  }
  LoopOrder order;
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, count, grain),
      [&](const tbb::blocked_range<int64_t>& range) {
        const TaskOrder task(order);
        fn(range.begin(), range.end());
      },
      tbb::simple_partitioner());
}

// Calls fn(i) for every i in [0, count), one index a task: for few, long, uneven pieces of work.
// Tasks begin in order of their index, so long ones belong first.
template <typename Fn>
void parallel_for(int64_t count, const Fn& fn) {
  std::atomic<int64_t> next{0};
  parallel_for_ranges(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(next.fetch_add(1, std::memory_order_relaxed));
  });
}

// join(... join(body(range_0), body(range_1)) ..., body(range_n)) over stretches of `grain`
// indices, in their order: the result does not depend on the number of threads. `empty` for no
// indices.
template <typename T, typename Body, typename Join>
T parallel_reduce(int64_t count, int64_t grain, const T& empty, const Body& body,
                  const Join& join) {
  if (count <= 0) return empty;
  std::vector<T> parts((count + grain - 1) / grain, empty);
  parallel_for_ranges(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parts[i] = body(i * grain, std::min((i + 1) * grain, count));
    }
  });
  T result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) result = join(result, parts[i]);
  return result;
}

}  // namespace mpfa::internal
