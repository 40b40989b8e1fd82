// cp.async.bulk and cp.reduce.async.bulk: copies of consecutive bytes, and their groups.
#include <cstring>
#include <string>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/async_copy.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/reduction.h"
#include "sim/machine/address.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/issuer.h"
#include "sim/machine/mbarrier.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

constexpr uint32_t kUnit = 16;  // bytes: of alignment, and of what stays together
constexpr uint32_t kAllBytes = 0xFFFF;

struct BulkDetail : InsnDetail {
  BulkDirection direction = BulkDirection::kGlobalToBlock;
  AddressOperand to;
  AddressOperand from;
  AddressOperand barrier;
  Slot size = kNoSlot;
  Slot block_mask = kNoSlot;  // of .multicast::cluster
  Slot byte_mask = kNoSlot;   // of .cp_mask: bytes of each 16 that are copied
  bool reduces = false;
  ReduceOp op = ReduceOp::kAdd;
  TensorMapType type = TensorMapType::kU32;
};

// What one thread copies.
struct BulkCopy {
  uint64_t to = 0;
  uint64_t from = 0;
  uint64_t barrier = 0;
  uint32_t size = 0;
  uint32_t byte_mask = kAllBytes;
  uint32_t block_mask = 0;
};

void move_bytes(const BulkDetail& d, std::byte* to, const std::byte* from, size_t bytes,
                uint32_t byte_mask) {
  if (d.reduces) return reduce_atomically(d.op, d.type, to, from, bytes);
  if (byte_mask == kAllBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; ++at) {
    if ((byte_mask >> at % kUnit & 1) != 0) to[at] = from[at];
  }
}

void copy_into_shared(Warp& w, const Insn& i, const BulkDetail& d, int lane, const BulkCopy& copy) {
  const bool from_shared = d.direction == BulkDirection::kBlockToCluster;
  const MemorySpace space = destination_space(d.direction);
  CopyTarget first;
  first.data = shared_place(w, i, lane, space, AccessKind::kWrite, copy.to, copy.size, kUnit);
  first.barrier = shared_place(w, i, lane, space, AccessKind::kAtomic, copy.barrier, kMBarrierBytes,
                               kMBarrierBytes);
  const std::byte* from =
      resolve_range(w, i, lane, from_shared ? MemorySpace::kShared : MemorySpace::kGlobal,
                    AccessKind::kRead, copy.from, copy.size, kUnit);
  Issuer issuer = Issuer::of(w, i, 1u << lane);
  issuer.operation = start_async(w, i, 1u << lane, Proxy::kAsync);
  if (from_shared && first.data.block == w.block) {
    issuer.fail(FaultKind::kCheck,
                "the destination is in the block's own shared memory; a copy from there must go "
                "to another block of the cluster");
  }
  const bool is_multicast = d.block_mask != kNoSlot;
  const Block* source = from_shared ? w.block : nullptr;
  const uint64_t from_offset = copy.from & kSharedOffsetMask;
  for (const CopyTarget& target :
       copy_targets(issuer, first, is_multicast, copy.block_mask, false)) {
    deliver(issuer, target, copy.size / kUnit,
            [&d, from, source, issuer, from_offset](const CopyTarget& to, CopyRange range) {
              if (source != nullptr) {
                require_running(issuer, *source, "an asynchronous copy reads");
              }
              const size_t begin = range.begin * kUnit;
              const size_t bytes = range.end * kUnit - begin;
              if (source != nullptr) {
                observe_async(issuer.operation, *source, from_offset + begin, bytes,
                              AccessKind::kRead);
              }
              observe_async(issuer.operation, *to.data.block, to.data.offset + begin, bytes,
                            d.reduces ? AccessKind::kAtomic : AccessKind::kWrite);
              move_bytes(d, to.data.bytes() + begin, from + begin, bytes, kAllBytes);
              return static_cast<uint32_t>(bytes);
            });
  }
}

void copy_to_global(Warp& w, const Insn& i, const BulkDetail& d, int lane, const BulkCopy& copy) {
  std::byte* to = resolve_range(w, i, lane, MemorySpace::kGlobal,
                                d.reduces ? AccessKind::kAtomic : AccessKind::kWrite, copy.to,
                                copy.size, kUnit);
  const std::byte* from = resolve_range(w, i, lane, MemorySpace::kShared, AccessKind::kRead,
                                        copy.from, copy.size, kUnit);
  const auto buffer = std::make_shared<std::vector<std::byte>>(copy.size);
  const auto bytes_of = [](CopyRange range) { return (range.end - range.begin) * kUnit; };
  Issuer issuer = Issuer::of(w, i, 1u << lane);
  issuer.operation = start_async(w, i, 1u << lane, Proxy::kAsync);
  const uint64_t from_offset = copy.from & kSharedOffsetMask;
  DrainSteps steps;
  steps.read = [buffer, from, bytes_of, block = w.block, from_offset,
                operation = issuer.operation](CopyRange range) {
    const size_t begin = range.begin * kUnit;
    observe_async(operation, *block, from_offset + begin, bytes_of(range), AccessKind::kRead);
    std::memcpy(buffer->data() + begin, from + begin, bytes_of(range));
  };
  steps.write = [&d, buffer, to, bytes_of, mask = copy.byte_mask,
                 cluster = w.block->cluster](CopyRange range) {
    if (d.reduces) cluster->await_turn();
    const size_t begin = range.begin * kUnit;
    move_bytes(d, to + begin, buffer->data() + begin, bytes_of(range), mask);
  };
  drain(issuer, *w.block, lane, copy.size / kUnit, steps);
}

Step bulk_copy(Warp& w, const Insn& i) {
  const auto& d = static_cast<const BulkDetail&>(*i.detail);
  uint64_t to[kWarpSize];
  uint64_t from[kWarpSize];
  uint64_t barrier[kWarpSize];
  lane_addresses(w, d.to, to);
  lane_addresses(w, d.from, from);
  lane_addresses(w, d.barrier, barrier);
  for_each_lane(w.mask, [&](int lane) {
    BulkCopy copy = {.to = to[lane], .from = from[lane], .barrier = barrier[lane]};
    copy.size = w.source<uint32_t>(d.size)[lane];
    if (copy.size % kUnit != 0) {
      w.fail(
          FaultKind::kCheck, i, 1u << lane,
          internal::str_cat("the size is ", copy.size, " bytes; it must be a multiple of ", kUnit));
    }
    if (copy.size == 0) return;
    if (d.block_mask != kNoSlot) copy.block_mask = w.source<uint16_t>(d.block_mask)[lane];
    if (d.byte_mask != kNoSlot) copy.byte_mask = w.source<uint16_t>(d.byte_mask)[lane];
    if (d.direction == BulkDirection::kBlockToGlobal) {
      copy_to_global(w, i, d, lane, copy);
    } else {
      copy_into_shared(w, i, d, lane, copy);
    }
  });
  return Step::kNext;
}

// ---- groups
// ----------------------------------------------------------------------------------------

Step commit_group(Warp& w, const Insn& /*i*/) {
  async_groups(w).commit_bulk(w.mask);
  return Step::kNext;
}

Step wait_group(Warp& w, const Insn& i) {
  const auto pending = static_cast<uint32_t>(i.imm);
  const bool is_read = i.u8 != 0;
  if (async_groups(w).is_bulk_over(w.mask, pending, is_read)) {
    finish_async(w, w.mask, async_groups(w).bulk_over(w.mask, pending), is_read);
    return Step::kNext;
  }
  return w.block_on("at cp.async.bulk.wait_group");
}

// ---- decoding
// --------------------------------------------------------------------------------------

void decode_wait_group(InsnDecoder& d) {
  const bool is_read = d.take("read");
  d.expect_no_more();
  const int64_t pending = d.immediate(0);
  if (pending < 0) d.fail("the number of groups must not be negative");
  Insn& insn = d.emit(&wait_group);
  insn.splits = true;
  insn.imm = pending;
  insn.u8 = is_read ? 1 : 0;
}

// [dst], [src], size, [mbar] {, ctaMask} {, cache-policy}, or
// [dst], [src], size {, cache-policy} {, byteMask}
void decode_operands(InsnDecoder& d, BulkDetail& detail) {
  const bool is_multicast = d.take("multicast::cluster");
  const bool is_masked = d.take("cp_mask");
  const bool to_global = detail.direction == BulkDirection::kBlockToGlobal;
  if (is_multicast && detail.direction != BulkDirection::kGlobalToCluster) {
    d.fail(".multicast::cluster needs .shared::cluster.global");
  }
  if (is_masked && !to_global) d.fail(".cp_mask needs .global.shared::cta");
  detail.to = d.address(0);
  detail.from = d.address(1);
  detail.size = d.source(2, ScalarType::kB32);
  if (is_masked) detail.byte_mask = d.source(d.count() - 1, ScalarType::kB16);
  if (!to_global) detail.barrier = d.address(3);
  if (is_multicast) detail.block_mask = d.source(4, ScalarType::kB16);
  const size_t expected = to_global ? (is_masked ? 4 : 3) : (is_multicast ? 5 : 4);
  if (take_cache_policy(d) != expected) d.fail("the number of operands is wrong");
}

void emit_bulk(InsnDecoder& d, const BulkDetail& detail) {
  d.expect_no_more();
  Insn& insn = d.emit(&bulk_copy);
  d.detail<BulkDetail>(insn, detail);
}

// PTX ISA, cp.reduce.async.bulk, the table of operations and types.
bool is_reduction_allowed(ReduceOp op, ScalarType type, bool to_global) {
  const bool is_bits = type == ScalarType::kB32 || (type == ScalarType::kB64 && to_global);
  switch (op) {
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
      return is_bits;
    case ReduceOp::kInc:
    case ReduceOp::kDec:
      return type == ScalarType::kU32;
    case ReduceOp::kAdd:
      if (type == ScalarType::kU32 || type == ScalarType::kS32 || type == ScalarType::kU64) {
        return true;
      }
      return to_global && (type == ScalarType::kF16 || type == ScalarType::kBf16 ||
                           type == ScalarType::kF32 || type == ScalarType::kF64);
    default:
      if (type == ScalarType::kU32 || type == ScalarType::kS32) return true;
      return to_global && (type == ScalarType::kU64 || type == ScalarType::kS64 ||
                           type == ScalarType::kF16 || type == ScalarType::kBf16);
  }
}

}  // namespace

BulkDirection take_bulk_direction(InsnDecoder& d) {
  const std::string to = d.take_first();
  const std::string from = d.take_first();
  const bool by_barrier = d.take("mbarrier::complete_tx::bytes");
  const bool by_group = d.take("bulk_group");
  if (to == "global" && (from == "shared::cta" || from == "shared") && by_group) {
    return BulkDirection::kBlockToGlobal;
  }
  if (by_barrier && !by_group) {
    if (to == "shared::cta" && from == "global") return BulkDirection::kGlobalToBlock;
    if (to == "shared::cluster" && from == "global") return BulkDirection::kGlobalToCluster;
    if (to == "shared::cluster" && from == "shared::cta") return BulkDirection::kBlockToCluster;
  }
  d.fail("a copy to ." + to + " from ." + from + " with this completion is not known");
}

MemorySpace destination_space(BulkDirection direction) {
  return direction == BulkDirection::kGlobalToBlock ? MemorySpace::kShared
                                                    : MemorySpace::kSharedCluster;
}

void decode_bulk_copy(InsnDecoder& d) {
  if (d.take("wait_group")) return decode_wait_group(d);
  if (d.take("commit_group")) {
    d.expect_no_more();
    d.emit(&commit_group);
    return;
  }
  BulkDetail detail;
  detail.direction = take_bulk_direction(d);
  decode_operands(d, detail);
  emit_bulk(d, detail);
}

void decode_bulk_reduce(InsnDecoder& d) {
  BulkDetail detail;
  detail.reduces = true;
  detail.direction = take_bulk_direction(d);
  const bool to_global = detail.direction == BulkDirection::kBlockToGlobal;
  if (!to_global && detail.direction != BulkDirection::kBlockToCluster) {
    d.fail("a reduction must have its source in .shared::cta");
  }
  detail.op = take_reduce_op(d);
  const bool is_noftz = d.take("noftz");
  const ScalarType type = d.expect_type();
  const bool is_half = type == ScalarType::kF16 || type == ScalarType::kBf16;
  if (!is_reduction_allowed(detail.op, type, to_global)) {
    d.fail("." + std::string(name_of(detail.op)) + " of type ." + std::string(name_of(type)) +
           " is not known");
  }
  if (is_noftz != (is_half && detail.op == ReduceOp::kAdd)) {
    d.fail(".noftz belongs to .add of .f16 and .bf16");
  }
  detail.type = *reduction_type(type);
  decode_operands(d, detail);
  emit_bulk(d, detail);
}

}  // namespace mpfa::sim
