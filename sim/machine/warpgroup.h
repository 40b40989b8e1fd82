// The wgmma instructions of a warpgroup that are on their way: issued by its four warps, done by
// the tensor core in order, at a time of its own.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sim/machine/code.h"

namespace mpfa::sim {

struct AsyncStart;
constexpr int kWarpsOfGroup = 4;

// One wgmma.mma_async.
struct WgmmaOperation {
  const Insn* insn = nullptr;
  std::array<Warp*, kWarpsOfGroup> warps = {};
  std::array<std::byte*, kWarpsOfGroup> registers = {};                  // of the warps' frames
  std::array<std::shared_ptr<std::byte[]>, kWarpsOfGroup> storage = {};  // where those lie
  uint64_t a_descriptor = 0;
  uint64_t b_descriptor = 0;
  bool add_d = true;
  int issued = 0;  // by so many of the warps
  std::array<std::array<uint32_t, kWarpSize>, kWarpsOfGroup> metadata = {};  // of a sparse A
  std::shared_ptr<AsyncStart> checks;
};

class Warpgroup {
 public:
  using Run = void (*)(const WgmmaOperation& operation);

  explicit Warpgroup(Run run) : run_(run) {}

  // The operation that warp `index` (0 to 3) issues now, to be filled in. All warps must issue the
  // same instructions in the same order.
  WgmmaOperation& issue(int index);
  // What warp `index` has issued belongs to a group that ends here.
  void commit(int index);
  // Number of operations that must be done so that at most `pending` of the warp's groups are not.
  uint64_t needed(int index, uint64_t pending) const;
  // Does operations up to number `count`; false if the other warps have not issued all of those.
  bool run_until(uint64_t count);
  // Operations that all warps have issued.
  uint64_t complete() const;
  uint64_t done() const { return done_; }
  // What the checks know of the operations before number `count` that the warp has not waited for.
  std::vector<std::shared_ptr<AsyncStart>> take_waited(int index, uint64_t count);
  // wgmma.fence of warp `index`, and how many it has executed.
  void fence(int index) { ++fences_[static_cast<size_t>(index)]; }
  uint64_t fences(int index) const { return fences_[static_cast<size_t>(index)]; }
  // Operations that warp `index` has issued, and those that it has waited for.
  uint64_t issued(int index) const { return issued_[static_cast<size_t>(index)]; }
  uint64_t waited(int index) const { return waited_[static_cast<size_t>(index)]; }
  // Those of a warp that are not done.
  bool has_pending(int index) const { return issued_[static_cast<size_t>(index)] > done_; }

 private:
  Run run_;
  std::deque<WgmmaOperation> operations_;  // from number done_ on
  uint64_t done_ = 0;
  std::array<uint64_t, kWarpsOfGroup> issued_ = {};
  std::array<uint64_t, kWarpsOfGroup> fences_ = {};
  std::array<std::vector<uint64_t>, kWarpsOfGroup> group_ends_;
  // Operations that are done, from number first_checked_ on, until all warps have waited for them.
  std::deque<std::shared_ptr<AsyncStart>> checked_;
  uint64_t first_checked_ = 0;
  std::array<uint64_t, kWarpsOfGroup> waited_ = {};
};

}  // namespace mpfa::sim
