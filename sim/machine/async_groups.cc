#include "sim/machine/async_groups.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "sim/machine/each_lane.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {
namespace {

// Copies of a warp that the checks follow until they are waited for.
constexpr size_t kMostUnwaited = 256;

}  // namespace

// ---- cp.async
// --------------------------------------------------------------------------------------

void AsyncGroups::perform(ThreadCopy& copy, uint32_t lanes) {
  lanes &= copy.lanes;
  copy.lanes &= ~lanes;
  for_each_lane(lanes, [&](int lane) {
    const uint32_t filled = copy.from_bytes[lane];
    if (filled > 0) std::memcpy(copy.to[lane], copy.from[lane], filled);
    std::memset(copy.to[lane] + filled, 0, copy.bytes - filled);
  });
}

void AsyncGroups::drop_done() {
  std::erase_if(copies_, [](const Issued& each) { return each.copy.lanes == 0; });
}

void AsyncGroups::add(ThreadCopy copy, Random& random) {
  for_each_lane(copy.lanes, [&](int lane) { copy.group[lane] = committed_[lane]; });
  const uint64_t number = issued_++;
  if (copy.operation != nullptr) {
    unwaited_.push_back({number, copy.lanes, copy.group, copy.operation});
  }
  if (random.one_in(3)) return perform(copy, copy.lanes);
  copies_.push_back({number, std::move(copy)});
}

void AsyncGroups::do_some(Random& random) {
  if (copies_.empty() || random.one_in(2)) return;
  const auto which = std::next(copies_.begin(), static_cast<int64_t>(random.below(copies_.size())));
  // Threads' copies are not done together, either.
  perform(which->copy, random.one_in(2) ? kAllLanes : static_cast<uint32_t>(random.next()));
  if (which->copy.lanes == 0) copies_.erase(which);
}

void AsyncGroups::commit(uint32_t lanes) {
  for_each_lane(lanes, [&](int lane) { ++committed_[lane]; });
}

template <class IsDue>
std::vector<AsyncHandle> AsyncGroups::take_waited(uint32_t lanes, IsDue is_due) {
  std::vector<AsyncHandle> taken;
  for (Unwaited& each : unwaited_) {
    uint32_t due = 0;
    for_each_lane(lanes & each.lanes,
                  [&](int lane) { due |= static_cast<uint32_t>(is_due(each, lane)) << lane; });
    each.lanes &= ~due;
    if (due != 0) taken.push_back(each.operation);
  }
  std::erase_if(unwaited_, [](const Unwaited& each) { return each.lanes == 0; });
  return taken;
}

std::vector<AsyncHandle> AsyncGroups::take_stale() {
  std::vector<AsyncHandle> taken;
  while (unwaited_.size() > kMostUnwaited) {
    taken.push_back(unwaited_.front().operation);
    unwaited_.erase(unwaited_.begin());
  }
  return taken;
}

std::vector<AsyncHandle> AsyncGroups::first(uint32_t lanes, uint64_t count) const {
  std::vector<AsyncHandle> found;
  for (const Unwaited& each : unwaited_) {
    if (each.number < count && (each.lanes & lanes) != 0) found.push_back(each.operation);
  }
  return found;
}

std::vector<AsyncHandle> AsyncGroups::wait(uint32_t lanes, uint32_t pending) {
  for (Issued& each : copies_) {
    uint32_t due = 0;
    for_each_lane(lanes & each.copy.lanes, [&](int lane) {
      const bool is_due = each.copy.group[lane] + uint64_t{pending} < committed_[lane];
      due |= static_cast<uint32_t>(is_due) << lane;
    });
    perform(each.copy, due);
  }
  drop_done();
  return take_waited(lanes, [&](const Unwaited& each, int lane) {
    return each.group[lane] + uint64_t{pending} < committed_[lane];
  });
}

std::vector<AsyncHandle> AsyncGroups::wait_all(uint32_t lanes) {
  commit(lanes);
  do_first(lanes, issued_);
  return take_waited(lanes, [](const Unwaited&, int) { return true; });
}

void AsyncGroups::do_first(uint32_t lanes, uint64_t count) {
  for (Issued& each : copies_) {
    if (each.number < count) perform(each.copy, lanes);
  }
  drop_done();
}

// ---- cp.async.bulk
// ---------------------------------------------------------------------------------

std::shared_ptr<BulkOperation> AsyncGroups::add_bulk(int lane, uint32_t pieces,
                                                     AsyncHandle operation) {
  bulk_.push_back(std::make_shared<BulkOperation>(
      BulkOperation{.lane = lane,
                    .group = bulk_committed_[static_cast<size_t>(lane)],
                    .unread = pieces,
                    .unwritten = pieces,
                    .operation = std::move(operation)}));
  if (bulk_.back()->operation != nullptr) bulk_unwaited_.push_back(*bulk_.back());
  return bulk_.back();
}

void AsyncGroups::commit_bulk(uint32_t lanes) {
  for_each_lane(lanes, [&](int lane) { ++bulk_committed_[lane]; });
}

bool AsyncGroups::is_bulk_over(uint32_t lanes, uint32_t pending, bool is_read) {
  std::erase_if(bulk_, [](const auto& each) { return each->unwritten == 0; });
  return std::none_of(bulk_.begin(), bulk_.end(), [&](const auto& each) {
    if ((lanes >> each->lane & 1) == 0) return false;
    const uint64_t committed = bulk_committed_[static_cast<size_t>(each->lane)];
    const bool is_due = each->group + uint64_t{pending} < committed;
    return is_due && (!is_read || each->unread > 0);
  });
}

std::vector<AsyncHandle> AsyncGroups::bulk_over(uint32_t lanes, uint32_t pending) {
  std::vector<AsyncHandle> over;
  std::erase_if(bulk_unwaited_, [&](const BulkOperation& each) {
    const uint64_t committed = bulk_committed_[static_cast<size_t>(each.lane)];
    const bool is_due = (lanes >> each.lane & 1) != 0 && each.group + uint64_t{pending} < committed;
    if (is_due) over.push_back(each.operation);
    return is_due;
  });
  return over;
}

AsyncGroups& async_groups(Warp& warp) {
  if (warp.async == nullptr) warp.async = std::make_shared<AsyncGroups>();
  return *warp.async;
}

}  // namespace mpfa::sim
