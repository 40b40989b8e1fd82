#include "sim/machine/block.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/machine/address.h"
#include "sim/machine/deadlock.h"
#include "sim/machine/monitor.h"
#include "sim/machine/turns.h"

namespace mpfa::sim {
namespace {

// A warp's turn is up to 2^kLongestTurn instructions, so that short and long ones are about as
// likely.
constexpr uint64_t kLongestTurn = 12;
// What an asynchronous operation that is neither early nor late takes, in warp instructions.
constexpr uint64_t kLongestDelay = 4096;
// Of the weight of an access that polls, a turn's end.
constexpr uint32_t kMostPolls = 1u << 16;
// How often timed waits may end in a row with nothing else happening: programs may give up after
// some attempts, but most ask again for ever.
constexpr uint32_t kMostExpiries = 64;

}  // namespace

// ---- Block
// -----------------------------------------------------------------------------------------

uint32_t Block::shared_base() const { return rank << kSharedRankShift; }

uint32_t Block::live_threads() const {
  uint32_t count = 0;
  for (const auto& warp : warps) {
    const uint32_t live = warp->live();
    count += live == kAllLanes ? kWarpSize : static_cast<uint32_t>(std::popcount(live));
  }
  return count;
}

bool Block::finished() const {
  return std::all_of(warps.begin(), warps.end(), [](const auto& w) { return w->finished(); });
}

// ---- Cluster
// ---------------------------------------------------------------------------------------

Cluster::Cluster(const Grid& owner, uint64_t number)
    : grid(&owner), index(number), random(owner.seed ^ (number * 0x9E3779B97F4A7C15u)) {
  const Dim3 clusters = {owner.grid.x / owner.cluster.x, owner.grid.y / owner.cluster.y,
                         owner.grid.z / owner.cluster.z};
  position = position_of(number, clusters);
  const auto warp_count = static_cast<uint32_t>((owner.block.count() + kWarpSize - 1) / kWarpSize);
  for (uint32_t rank = 0; rank < owner.cluster.count(); ++rank) {
    auto block = std::make_unique<Block>();
    block->cluster = this;
    block->grid = grid;
    block->rank = rank;
    const Dim3 inside = position_of(rank, owner.cluster);
    block->position = {position.x * owner.cluster.x + inside.x,
                       position.y * owner.cluster.y + inside.y,
                       position.z * owner.cluster.z + inside.z};
    block->shared.resize(owner.shared_bytes);
    for (uint32_t i = 0; i < warp_count; ++i) {
      block->warps.push_back(std::make_unique<Warp>());
      block->warps.back()->start(block.get(), i, *owner.code->functions[0]);
    }
    blocks.push_back(std::move(block));
  }
  const Checks& checks = owner.checks;
  if (!checks.races && !checks.uninitialized && !checks.async && !checks.barriers) return;
  monitor = std::make_unique<Monitor>(*this);
  for (const auto& block : blocks) {
    for (const auto& warp : block->warps) warp->monitor = monitor.get();
  }
}

Cluster::~Cluster() = default;

bool Cluster::finished() const {
  return std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b->finished(); });
}

void Cluster::run(uint64_t budget) {
  std::vector<Warp*> running;
  for (const auto& block : blocks) {
    for (const auto& warp : block->warps) {
      if (!warp->finished()) running.push_back(warp.get());
    }
  }
  uint64_t spent = 0;
  polls_ = 0;
  while (spent < budget && polls_ < kMostPolls && !running.empty()) {
    complete_some(false);
    bool progress = false;
    const size_t first = random.below(running.size());
    for (size_t k = 0; k < running.size() && !progress; ++k) {
      const size_t at = (first + k) % running.size();
      Warp& warp = *running[at];
      const uint64_t before = warp.instructions;
      progress = warp.run(uint32_t{1} << random.below(kLongestTurn + 1));
      spent += warp.instructions - before;
      clock += warp.instructions - before;
      if (warp.finished()) {
        running[at] = running.back();
        running.pop_back();
      }
    }
    if (!progress && !running.empty() && !complete_some(true) && !expire_waits()) {
      report_deadlock(*this);
    }
  }
  if (running.empty()) drain();
}

void Cluster::take_turn(Turns& turns, uint64_t turn, uint64_t budget) {
  turns_ = &turns;
  turn_ = turn;
  run(budget);
  turns_ = nullptr;
}

void Cluster::wait_for_turn() {
  turns_->wait_for(turn_);
  turns_ = nullptr;
}

void Cluster::defer(std::function<void()> operation) {
  // A third each: at once, only when nothing else can go on, some time between.
  uint64_t ready = clock;
  const uint64_t kind = random.below(3);
  if (kind == 1) ready = UINT64_MAX;
  if (kind == 2) ready += random.below(kLongestDelay);
  pending.push_back({ready, std::move(operation)});
}

bool Cluster::complete_some(bool at_least_one) {
  bool completed = false;
  for (size_t i = 0; i < pending.size();) {
    if (pending[i].ready > clock) {
      ++i;
      continue;
    }
    // Taken out first: an operation may defer others.
    const AsyncOperation operation = std::move(pending[i]);
    pending.erase(pending.begin() + static_cast<int64_t>(i));
    operation.complete();
    completed = true;
  }
  if (!completed && at_least_one && !pending.empty()) {
    const auto at = static_cast<int64_t>(random.below(pending.size()));
    const AsyncOperation operation = std::move(pending[static_cast<size_t>(at)]);
    pending.erase(pending.begin() + at);
    operation.complete();
    completed = true;
  }
  if (completed) notify();
  return completed;
}

bool Cluster::expire_waits() {
  if (events != events_at_expiry_) expiries_ = 0;
  if (++expiries_ > kMostExpiries) return false;
  bool any = false;
  for (const auto& block : blocks) {
    for (const auto& warp : block->warps) {
      for (const auto& split : warp->splits) {
        if (!split->wait.blocked || !split->wait.is_timed) continue;
        split->wait.has_expired = true;
        any = true;
      }
    }
  }
  if (any) notify();
  events_at_expiry_ = events;
  return any;
}

void Cluster::drain() {
  while (complete_some(true)) {
  }
}

}  // namespace mpfa::sim
