// Asynchronous copies that threads wait for in groups (PTX ISA, "Async-group mechanism"): cp.async,
// and bulk copies out of shared memory. Of the threads of one warp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "sim/machine/code.h"
#include "sim/machine/random.h"

namespace mpfa::sim {

struct Warp;
struct AsyncStart;
using AsyncHandle = std::shared_ptr<AsyncStart>;

// One cp.async instruction: what each lane copies. What lies behind `from_bytes` is zeroed.
struct ThreadCopy {
  uint32_t lanes = 0;  // that are still to be done
  uint32_t bytes = 0;  // of a lane
  std::array<std::byte*, kWarpSize> to = {};
  std::array<const std::byte*, kWarpSize> from = {};
  std::array<uint8_t, kWarpSize> from_bytes = {};
  AsyncHandle operation;  // for the checks
  std::array<uint32_t, kWarpSize> group = {};
};

// One bulk copy of one thread, while it is under way.
struct BulkOperation {
  int lane = 0;
  uint32_t group = 0;
  uint32_t unread = 0;     // pieces of the source
  uint32_t unwritten = 0;  // pieces of the destination
  AsyncHandle operation;   // for the checks
};

class AsyncGroups {
 public:
  // ---- cp.async ----
  // Copies of lanes that nothing waits for yet are done at a random time: at once, when a later
  // instruction asks by do_some(), or when a wait makes them.
  void add(ThreadCopy copy, Random& random);
  void do_some(Random& random);
  void commit(uint32_t lanes);
  // Does all groups of `lanes` but the last `pending`; all copies, committed or not, for wait_all.
  // Give the operations that the lanes have waited for.
  std::vector<AsyncHandle> wait(uint32_t lanes, uint32_t pending);
  std::vector<AsyncHandle> wait_all(uint32_t lanes);
  // Copies issued so far, and doing those of `lanes` among the first `count`.
  uint64_t issued() const { return issued_; }
  void do_first(uint32_t lanes, uint64_t count);
  // Copies so old that the checks no longer follow them: they are taken to be over.
  std::vector<AsyncHandle> take_stale();
  std::vector<AsyncHandle> first(uint32_t lanes, uint64_t count) const;

  // ---- cp.async.bulk ----
  // An operation that belongs to the lane's next group.
  std::shared_ptr<BulkOperation> add_bulk(int lane, uint32_t pieces, AsyncHandle operation);
  void commit_bulk(uint32_t lanes);
  // Whether all bulk groups of `lanes` but the last `pending` are over, or, for .read, have read
  // their sources.
  bool is_bulk_over(uint32_t lanes, uint32_t pending, bool is_read);
  // The operations that such a wait has waited for.
  std::vector<AsyncHandle> bulk_over(uint32_t lanes, uint32_t pending);

 private:
  struct Issued {
    uint64_t number = 0;
    ThreadCopy copy;
  };

  // What the checks know of a copy until all its lanes have waited.
  struct Unwaited {
    uint64_t number = 0;
    uint32_t lanes = 0;
    std::array<uint32_t, kWarpSize> group = {};
    AsyncHandle operation;
  };

  static void perform(ThreadCopy& copy, uint32_t lanes);
  // Takes `lanes` away from those that `is_due(copy, lane)` names, and gives the copies.
  template <class IsDue>
  std::vector<AsyncHandle> take_waited(uint32_t lanes, IsDue is_due);
  void drop_done();

  std::list<Issued> copies_;  // in the order of issue
  std::vector<Unwaited> unwaited_;
  uint64_t issued_ = 0;
  std::array<uint32_t, kWarpSize> committed_ = {};
  std::vector<std::shared_ptr<BulkOperation>> bulk_;
  std::vector<BulkOperation> bulk_unwaited_;
  std::array<uint32_t, kWarpSize> bulk_committed_ = {};
};

// The warp's, made when first asked for.
AsyncGroups& async_groups(Warp& warp);

}  // namespace mpfa::sim
