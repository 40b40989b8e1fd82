// Host threads that do the same work together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mpfa::sim {

class Workers {
 public:
  // `count` threads, the caller's own among them.
  explicit Workers(int count) {
    for (int i = 1; i < count; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls work() on every thread, and returns when all have returned. It must not throw.
  void run(const std::function<void()>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      running_ = threads_.size();
      ++generation_;
    }
    changed_.notify_all();
    work();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
  }

 private:
  void loop() {
    uint64_t seen = 0;
    for (;;) {
      const std::function<void()>* work = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || generation_ != seen; });
        if (stopped_) return;
        seen = generation_;
        work = work_;
      }
      (*work)();
      const std::lock_guard lock(mutex_);
      if (--running_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  const std::function<void()>* work_ = nullptr;
  uint64_t generation_ = 0;
  size_t running_ = 0;
  bool stopped_ = false;
};

}  // namespace mpfa::sim
