// st.async and red.async: stores into another block's shared memory, which its mbarrier counts.
// st.bulk: many zeros.
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/async_copy.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/reduction.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/issuer.h"
#include "sim/machine/mbarrier.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

constexpr size_t kMostBytes = 16;

struct AsyncStoreDetail : InsnDetail {
  AddressOperand to;
  AddressOperand barrier;
  MemorySpace space = MemorySpace::kGeneric;
  std::vector<Slot> values;
  uint32_t element_bytes = 0;
  bool reduces = false;
  ReduceOp op = ReduceOp::kAdd;
  TensorMapType type = TensorMapType::kU32;
};

// One thread's store.
struct AsyncStore {
  CopyTarget target;
  Issuer issuer;
  std::array<std::byte, kMostBytes> value = {};
};

void complete(const AsyncStoreDetail& d, const AsyncStore& store) {
  const CopyTarget& at = store.target;
  const auto bytes = static_cast<uint32_t>(d.element_bytes * d.values.size());
  require_running(store.issuer, *at.data.block, "an asynchronous store writes");
  observe_async(store.issuer.operation, *at.data.block, at.data.offset, bytes,
                d.reduces ? AccessKind::kAtomic : AccessKind::kWrite);
  if (d.reduces) {
    reduce_atomically(d.op, d.type, at.data.bytes(), store.value.data(), bytes);
  } else {
    std::memcpy(at.data.bytes(), store.value.data(), bytes);
  }
  MBarrierAccess(*at.barrier.block, at.barrier.offset, store.issuer).complete_tx(bytes);
}

Step async_store(Warp& w, const Insn& i) {
  const auto& d = static_cast<const AsyncStoreDetail&>(*i.detail);
  uint64_t to[kWarpSize];
  uint64_t barrier[kWarpSize];
  lane_addresses(w, d.to, to);
  lane_addresses(w, d.barrier, barrier);
  const uint64_t bytes = d.element_bytes * d.values.size();
  std::vector<AsyncStore> stores;
  for_each_lane(w.mask, [&](int lane) {
    AsyncStore store;
    store.issuer = Issuer::of(w, i, 1u << lane);
    store.issuer.operation = start_async(w, i, 1u << lane, Proxy::kGeneric);
    const CopyTarget target = {
        .data = shared_place(w, i, lane, d.space, AccessKind::kWrite, to[lane], bytes, bytes),
        .barrier = shared_place(w, i, lane, d.space, AccessKind::kAtomic, barrier[lane],
                                kMBarrierBytes, kMBarrierBytes)};
    store.target = copy_targets(store.issuer, target, false, 0, false).front();
    for (size_t k = 0; k < d.values.size(); ++k) {
      std::memcpy(store.value.data() + k * d.element_bytes,
                  w.source<std::byte>(d.values[k]) + static_cast<size_t>(lane) * d.element_bytes,
                  d.element_bytes);
    }
    stores.push_back(store);
  });
  Cluster& cluster = *w.block->cluster;
  for (const CopyRange range : cut_at_random(cluster.random, stores.size())) {
    const std::vector<AsyncStore> some(stores.begin() + static_cast<int64_t>(range.begin),
                                       stores.begin() + static_cast<int64_t>(range.end));
    cluster.defer([&d, some] {
      for (const AsyncStore& each : some) complete(d, each);
    });
  }
  return Step::kNext;
}

// st.bulk has no other completion than that of stores.
struct BulkStoreDetail : InsnDetail {
  AddressOperand to;
  MemorySpace space = MemorySpace::kGeneric;
  Slot size = kNoSlot;
};

Step bulk_store(Warp& w, const Insn& i) {
  const auto& d = static_cast<const BulkStoreDetail&>(*i.detail);
  uint64_t to[kWarpSize];
  lane_addresses(w, d.to, to);
  for_each_lane(w.mask, [&](int lane) {
    const uint64_t size = w.source<uint64_t>(d.size)[lane];
    if (size % 8 != 0) {
      w.fail(FaultKind::kCheck, i, 1u << lane,
             internal::str_cat("the size is ", size, " bytes; it must be a multiple of 8"));
    }
    const SharedPlace at = shared_place(w, i, lane, d.space, AccessKind::kWrite, to[lane], size, 8);
    observe_place(w, i, lane, *at.block, at.offset, static_cast<uint32_t>(size),
                  AccessKind::kWrite);
    std::memset(at.bytes(), 0, size);
  });
  return Step::kNext;
}

void emit_store(InsnDecoder& d, AsyncStoreDetail detail) {
  d.expect_no_more();
  if (d.count() != 3) d.fail("there must be 3 operands");
  detail.to = d.address(0);
  detail.barrier = d.address(2);
  Insn& insn = d.emit(&async_store);
  d.detail<AsyncStoreDetail>(insn, std::move(detail));
}

MemorySpace take_target(InsnDecoder& d) {
  if (!d.take("mbarrier::complete_tx::bytes")) {
    d.fail("without .mbarrier::complete_tx::bytes it needs sm_100, and is not supported");
  }
  return d.take("shared::cluster") ? MemorySpace::kSharedCluster : MemorySpace::kGeneric;
}

}  // namespace

void decode_st_async(InsnDecoder& d) {
  AsyncStoreDetail detail;
  d.take("weak");
  detail.space = take_target(d);
  const int vector = d.take_one({"v2", "v4"});
  const size_t count = vector < 0 ? 1 : (vector == 0 ? 2 : 4);
  const ScalarType type = d.expect_type();
  detail.element_bytes = static_cast<uint32_t>(bits_of(type)) / 8;
  if ((detail.element_bytes != 4 && detail.element_bytes != 8) ||
      detail.element_bytes * count > kMostBytes) {
    d.fail("values must have 32 or 64 bits, and at most 128 together");
  }
  const Operand& value = d.operand(1);
  if (value.kind == OperandKind::kVector) {
    for (const Operand& part : value.parts) detail.values.push_back(d.source(part, type));
  } else {
    detail.values.push_back(d.source(value, type));
  }
  if (detail.values.size() != count) d.fail("the number of registers is not the vector's");
  emit_store(d, std::move(detail));
}

void decode_red_async(InsnDecoder& d) {
  AsyncStoreDetail detail;
  detail.reduces = true;
  d.take("relaxed");
  d.take("cluster");
  detail.space = take_target(d);
  detail.op = take_reduce_op(d);
  const ScalarType type = d.expect_type();
  const bool is_word = type == ScalarType::kU32 || type == ScalarType::kS32;
  bool is_known = false;
  switch (detail.op) {  // PTX ISA, red.async
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
      is_known = type == ScalarType::kB32;
      break;
    case ReduceOp::kInc:
    case ReduceOp::kDec:
      is_known = type == ScalarType::kU32;
      break;
    case ReduceOp::kAdd:
      is_known = is_word || type == ScalarType::kU64;
      break;
    default:
      is_known = is_word;
  }
  if (!is_known) {
    d.fail("." + std::string(name_of(detail.op)) + " of type ." + std::string(name_of(type)) +
           " is not known");
  }
  detail.type = *reduction_type(type);
  detail.element_bytes = static_cast<uint32_t>(bits_of(type)) / 8;
  detail.values = {d.source(1, type)};
  emit_store(d, std::move(detail));
}

void decode_st_bulk(InsnDecoder& d) {
  BulkStoreDetail detail;
  d.take("weak");
  if (d.take_one({"shared::cta", "shared"}) >= 0) detail.space = MemorySpace::kShared;
  d.expect_no_more();
  detail.to = d.address(0);
  detail.size = d.source(1, ScalarType::kB64);
  if (d.count() > 2 && d.immediate(2) != 0) d.fail("the initial value must be 0");
  Insn& insn = d.emit(&bulk_store);
  d.detail<BulkStoreDetail>(insn, detail);
}

}  // namespace mpfa::sim
