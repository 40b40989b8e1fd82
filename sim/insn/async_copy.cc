// cp.async: copies of single threads from global to shared memory. The other variants of cp are in
// bulk_copy.cc and tensor_copy.cc.
#include "sim/insn/async_copy.h"

#include <string>
#include <utility>

#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/machine/address.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/issuer.h"
#include "sim/machine/mbarrier.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

struct ThreadCopyDetail : InsnDetail {
  AddressOperand to;
  AddressOperand from;
  uint32_t bytes = 0;
  Slot from_bytes = kNoSlot;  // src-size
  Slot ignore = kNoSlot;      // ignore-src, a predicate
};

uint32_t source_bytes(Warp& w, const Insn& i, const ThreadCopyDetail& d, int lane) {
  if (d.ignore != kNoSlot && (w.predicate(d.ignore) >> lane & 1) != 0) return 0;
  if (d.from_bytes == kNoSlot) return d.bytes;
  const uint32_t bytes = w.source<uint32_t>(d.from_bytes)[lane];
  if (bytes > d.bytes) {
    w.fail(FaultKind::kCheck, i, 1u << lane,
           "src-size is " + std::to_string(bytes) + "; it must be at most cp-size, " +
               std::to_string(d.bytes));
  }
  return bytes;
}

Step copy(Warp& w, const Insn& i) {
  const auto& d = static_cast<const ThreadCopyDetail&>(*i.detail);
  uint64_t to[kWarpSize];
  uint64_t from[kWarpSize];
  lane_addresses(w, d.to, to);
  lane_addresses(w, d.from, from);
  ThreadCopy copy;
  copy.lanes = w.mask;
  copy.bytes = d.bytes;
  copy.operation = start_async(w, i, w.mask, Proxy::kGeneric);
  for_each_lane(w.mask, [&](int lane) {
    copy.to[lane] = resolve_range(w, i, lane, MemorySpace::kShared, AccessKind::kWrite, to[lane],
                                  d.bytes, d.bytes);
    // Whenever it is done, from now on nobody else may touch the destination.
    observe_async(copy.operation, *w.block, to[lane] & kSharedOffsetMask, d.bytes,
                  AccessKind::kWrite);
    const uint32_t bytes = source_bytes(w, i, d, lane);
    copy.from_bytes[lane] = static_cast<uint8_t>(bytes);
    if (bytes == 0) return;  // the source is not touched: it may be anything
    copy.from[lane] = resolve_range(w, i, lane, MemorySpace::kGlobal, AccessKind::kRead, from[lane],
                                    bytes, d.bytes);
  });
  AsyncGroups& groups = async_groups(w);
  Random& random = w.block->cluster->random;
  groups.do_some(random);
  groups.add(std::move(copy), random);
  finish_async(w, w.mask, groups.take_stale(), false);
  return Step::kNext;
}

Step commit_group(Warp& w, const Insn& /*i*/) {
  AsyncGroups& groups = async_groups(w);
  groups.do_some(w.block->cluster->random);
  groups.commit(w.mask);
  return Step::kNext;
}

Step wait_group(Warp& w, const Insn& i) {
  finish_async(w, w.mask, async_groups(w).wait(w.mask, static_cast<uint32_t>(i.imm)), false);
  return Step::kNext;
}

Step wait_all(Warp& w, const Insn& /*i*/) {
  finish_async(w, w.mask, async_groups(w).wait_all(w.mask), false);
  return Step::kNext;
}

// ---- cp.async.mbarrier.arrive
// ----------------------------------------------------------------------

struct ArriveDetail : InsnDetail {
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  bool increments = true;  // not .noinc
};

// Arrives when all copies that the thread has issued are done.
Step arrive_when_copied(Warp& w, const Insn& i) {
  const auto& d = static_cast<const ArriveDetail&>(*i.detail);
  uint64_t addresses[kWarpSize];
  lane_addresses(w, d.address, addresses);
  async_groups(w);
  const uint64_t issued = w.async->issued();
  std::vector<std::pair<int, SharedPlace>> barriers;
  for_each_lane(w.mask, [&](int lane) {
    const SharedPlace at = shared_place(w, i, lane, d.space, AccessKind::kAtomic, addresses[lane],
                                        kMBarrierBytes, kMBarrierBytes);
    observe_place(w, i, lane, *at.block, at.offset, kMBarrierBytes, AccessKind::kAtomic);
    const Issuer issuer = Issuer::of(w, i, 1u << lane);
    MBarrierAccess barrier(*at.block, at.offset, issuer);
    barrier.get();
    if (d.increments) barrier.add_pending();
    barriers.emplace_back(lane, at);
  });
  Cluster& cluster = *w.block->cluster;
  Issuer issuer = Issuer::of(w, i, w.mask);
  issuer.operation = start_async(w, i, w.mask, Proxy::kGeneric);
  const std::vector<CopyRange> ranges = cut_at_random(cluster.random, barriers.size());
  for (const CopyRange range : ranges) {
    const std::vector<std::pair<int, SharedPlace>> some(
        barriers.begin() + static_cast<int64_t>(range.begin),
        barriers.begin() + static_cast<int64_t>(range.end));
    cluster.defer([groups = w.async, issuer, issued, some] {
      for (const auto& [lane, at] : some) {
        groups->do_first(1u << lane, issued);
        require_running(issuer, *at.block, "an asynchronous arrival reaches an mbarrier in");
        for (const AsyncHandle& copied : groups->first(1u << lane, issued)) {
          arrive_async(copied, *at.block->cluster, mbarrier_at(*at.block, at.offset));
        }
        MBarrierAccess(*at.block, at.offset, issuer).arrive(1);
      }
    });
  }
  return Step::kNext;
}

// ---- decoding
// -------------------------------------------------------------------------------------

void decode_thread_copy(InsnDecoder& d) {
  ThreadCopyDetail detail;
  const bool is_cg = d.take("cg");
  if (!is_cg && !d.take("ca")) d.fail("one of .ca and .cg is missing");
  if (!d.take("shared") && !d.take("shared::cta")) d.fail("the destination must be .shared");
  if (!d.take("global")) d.fail("the source must be .global");
  d.take_one({"L2::64B", "L2::128B", "L2::256B"});
  const size_t count = take_cache_policy(d);
  d.expect_no_more();
  const int64_t bytes = d.immediate(2);
  if (bytes != 16 && (is_cg || (bytes != 4 && bytes != 8))) {
    d.fail("cp-size is " + std::to_string(bytes) +
           (is_cg ? "; with .cg it must be 16" : "; it must be 4, 8 or 16"));
  }
  if (count > 4) d.fail("there are operands too many");
  detail.to = d.address(0);
  detail.from = d.address(1);
  detail.bytes = static_cast<uint32_t>(bytes);
  if (count == 4) {
    const bool is_predicate = d.register_bits(d.operand(3), ScalarType::kB32) == 1;
    (is_predicate ? detail.ignore : detail.from_bytes) =
        is_predicate ? d.predicate(d.operand(3)) : d.source(3, ScalarType::kB32);
  }
  Insn& insn = d.emit(&copy);
  d.detail<ThreadCopyDetail>(insn, detail);
}

void decode_wait_group(InsnDecoder& d) {
  d.expect_no_more();
  const int64_t pending = d.immediate(0);
  if (pending < 0) d.fail("the number of groups must not be negative");
  d.emit(&wait_group).imm = pending;
}

void decode_arrive(InsnDecoder& d) {
  ArriveDetail detail;
  if (!d.take("arrive")) d.fail("cp.async.mbarrier without .arrive");
  detail.increments = !d.take("noinc");
  if (d.take_one({"shared", "shared::cta"}) >= 0) detail.space = MemorySpace::kShared;
  if (!d.take("b64")) d.fail("the type must be .b64");
  d.expect_no_more();
  detail.address = d.address(0);
  Insn& insn = d.emit(&arrive_when_copied);
  d.detail<ArriveDetail>(insn, detail);
}

Step do_nothing(Warp& /*w*/, const Insn& /*i*/) { return Step::kNext; }

// cp.async.bulk.prefetch.L2.global [a], size {, cache-policy}. Caches are not modelled.
void decode_bulk_prefetch(InsnDecoder& d) {
  if (!d.take("L2") || !d.take("global")) d.fail(".L2.global is missing");
  if (take_cache_policy(d) != 2) d.fail("the number of operands is wrong");
  d.expect_no_more();
  d.address(0);
  d.source(1, ScalarType::kB32);
  d.emit(&do_nothing);
}

}  // namespace

size_t take_cache_policy(InsnDecoder& d) {
  if (!d.take("L2::cache_hint")) return d.count();
  if (d.count() == 0) d.fail("the cache policy is missing");
  return d.count() - 1;
}

void decode_cp(InsnDecoder& d) {
  const bool is_reduction = d.take("reduce");
  if (!d.take("async")) d.fail("cp without .async");
  const bool is_bulk = d.take("bulk");
  if (is_reduction && !is_bulk) d.fail("cp.reduce.async without .bulk");
  if (is_bulk) {
    const bool is_prefetch = d.take("prefetch");
    const bool is_tensor = d.take("tensor");
    if (is_prefetch && is_tensor) return decode_tensor_prefetch(d);
    if (is_prefetch) return decode_bulk_prefetch(d);
    if (is_tensor) return is_reduction ? decode_tensor_reduce(d) : decode_tensor_copy(d);
    return is_reduction ? decode_bulk_reduce(d) : decode_bulk_copy(d);
  }
  if (d.take("mbarrier")) return decode_arrive(d);
  if (d.take("wait_group")) return decode_wait_group(d);
  const bool is_commit = d.take("commit_group");
  if (is_commit || d.take("wait_all")) {
    d.expect_no_more();
    d.emit(is_commit ? &commit_group : &wait_all);
    return;
  }
  decode_thread_copy(d);
}

}  // namespace mpfa::sim
