#include "common/threads.h"

#include <tbb/global_control.h>
#include <tbb/info.h>

#include <algorithm>

namespace mpfa::tools {

struct ThreadLimit::Impl {
  explicit Impl(int threads)
      : control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads)) {}

  tbb::global_control control;
};

ThreadLimit::ThreadLimit(int threads) {
  if (threads > 0) impl_ = std::make_unique<Impl>(threads);
}

ThreadLimit::~ThreadLimit() = default;

int active_threads() {
  const size_t limit =
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  return std::min(static_cast<int>(limit), tbb::info::default_concurrency());
}

}  // namespace mpfa::tools
