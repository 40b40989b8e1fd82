// How many threads the library may use.
#pragma once

#include <memory>

namespace mpfa::tools {

// Limits the library's threads while it exists; 0 leaves one per core.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Threads that the library uses now.
int active_threads();

}  // namespace mpfa::tools
