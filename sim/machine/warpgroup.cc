#include "sim/machine/warpgroup.h"

#include <algorithm>
#include <utility>

namespace mpfa::sim {

WgmmaOperation& Warpgroup::issue(int index) {
  const uint64_t number = issued_[static_cast<size_t>(index)]++;
  while (done_ + operations_.size() <= number) operations_.emplace_back();
  WgmmaOperation& operation = operations_[number - done_];
  ++operation.issued;
  return operation;
}

void Warpgroup::commit(int index) {
  const auto at = static_cast<size_t>(index);
  std::vector<uint64_t>& ends = group_ends_[at];
  // Not those that are done: whether a wait covers them must not depend on when they were.
  std::erase_if(ends, [&](uint64_t end) { return end <= waited_[at]; });
  ends.push_back(issued_[at]);
}

uint64_t Warpgroup::needed(int index, uint64_t pending) const {
  const std::vector<uint64_t>& ends = group_ends_[static_cast<size_t>(index)];
  if (ends.size() <= pending) return 0;
  return ends[ends.size() - 1 - pending];
}

std::vector<std::shared_ptr<AsyncStart>> Warpgroup::take_waited(int index, uint64_t count) {
  uint64_t& waited = waited_[static_cast<size_t>(index)];
  std::vector<std::shared_ptr<AsyncStart>> taken;
  for (; waited < count; ++waited) {
    if (waited >= first_checked_) taken.push_back(checked_[waited - first_checked_]);
  }
  const uint64_t all = *std::min_element(waited_.begin(), waited_.end());
  for (; first_checked_ < all && !checked_.empty(); ++first_checked_) checked_.pop_front();
  return taken;
}

uint64_t Warpgroup::complete() const { return *std::min_element(issued_.begin(), issued_.end()); }

bool Warpgroup::run_until(uint64_t count) {
  const uint64_t end = std::min(count, complete());
  while (done_ < end) {
    run_(operations_.front());
    if (checked_.empty()) first_checked_ = done_;
    checked_.push_back(std::move(operations_.front().checks));
    operations_.pop_front();
    ++done_;
  }
  return done_ >= count;
}

}  // namespace mpfa::sim
