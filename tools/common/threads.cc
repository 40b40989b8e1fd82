#include "common/threads.h"

#include <tbb/global_control.h>

namespace mpfa::tools {

struct ThreadLimit::Impl {
  tbb::global_control control;
};

ThreadLimit::ThreadLimit(int threads) {
  if (threads <= 0) return;
  impl_ = std::unique_ptr<Impl>(new Impl{tbb::global_control(
      tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads))});
}

ThreadLimit::~ThreadLimit() = default;

int active_threads() {
  return static_cast<int>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
}

}  // namespace mpfa::tools
