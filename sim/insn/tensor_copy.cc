// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of tensors.
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/insn/async_copy.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/reduction.h"
#include "sim/machine/address.h"
#include "sim/machine/block.h"
#include "sim/machine/each_lane.h"
#include "sim/machine/issuer.h"
#include "sim/machine/mbarrier.h"
#include "sim/machine/monitor.h"
#include "sim/tensor_map/box_walk.h"
#include "sim/tensor_map/tensor_map.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kTensorMapAlignment = 64;

enum class LoadMode : uint8_t { kTile, kFourRows, kIm2col };

struct TensorCopyDetail : InsnDetail {
  BulkDirection direction = BulkDirection::kGlobalToBlock;
  LoadMode mode = LoadMode::kTile;
  AddressOperand map;
  std::vector<Slot> coordinates;
  std::vector<Slot> offsets;  // im2colInfo
  AddressOperand shared;
  AddressOperand barrier;
  Slot block_mask = kNoSlot;  // of .multicast::cluster
  bool pairs = false;         // .cta_group::2
  bool reduces = false;
  ReduceOp op = ReduceOp::kAdd;
};

// A run with its place in global memory; nullptr out of bounds.
struct BoxRun : CopyRun {
  std::byte* global = nullptr;
};

// A copy's map and the bytes that it moves.
struct Box {
  TensorMap map;
  FillElement fill;
  std::vector<BoxRun> runs;
  uint32_t shared_bytes = 0;
};

CopyDirection direction_of(const TensorCopyDetail& d) {
  return d.direction == BulkDirection::kBlockToGlobal ? CopyDirection::kStore
                                                      : CopyDirection::kLoad;
}

BoxWalk walk_of(const Warp& w, const TensorCopyDetail& d, int lane, const TensorMap& map,
                uint32_t shared_offset) {
  std::array<int32_t, kMaxTensorRank> coordinates = {};
  for (size_t k = 0; k < d.coordinates.size(); ++k) {
    coordinates[k] = w.source<int32_t>(d.coordinates[k])[lane];
  }
  const std::span<const int32_t> at(coordinates.data(), d.coordinates.size());
  switch (d.mode) {
    case LoadMode::kTile:
      return BoxWalk::tile(map, at, shared_offset, direction_of(d));
    case LoadMode::kFourRows:
      return BoxWalk::four_rows(map, at, shared_offset, direction_of(d));
    default:
      break;
  }
  std::array<uint16_t, kMaxTensorRank> offsets = {};
  for (size_t k = 0; k < d.offsets.size(); ++k) {
    offsets[k] = w.source<uint16_t>(d.offsets[k])[lane];
  }
  return BoxWalk::im2col(map, at, std::span<const uint16_t>(offsets.data(), d.offsets.size()),
                         shared_offset, direction_of(d));
}

// Reads the map, and finds and checks all that the copy will touch of global memory.
std::shared_ptr<Box> make_box(Warp& w, const Insn& i, const TensorCopyDetail& d, int lane,
                              uint64_t map_address, uint32_t shared_offset) {
  const std::byte* bytes = resolve_range(w, i, lane, MemorySpace::kGeneric, AccessKind::kRead,
                                         map_address, kTensorMapBytes, kTensorMapAlignment);
  auto box = std::make_shared<Box>();
  try {
    box->map = decode_tensor_map(bytes);
    const BoxWalk walk = walk_of(w, d, lane, box->map, shared_offset);
    box->fill = fill_of(box->map);
    box->shared_bytes = walk.shared_bytes();
    walk.visit_runs([&](const CopyRun& run) { box->runs.push_back({run, nullptr}); });
  } catch (const TensorMapError& error) {
    w.fail(FaultKind::kCheck, i, 1u << lane, error.what());
  }
  if (d.reduces && !has_reduction(d.op, box->map.type)) {
    w.fail(FaultKind::kCheck, i, 1u << lane,
           "tensor map: elemtype = " + std::string(name_of(box->map.type)) + ": ." +
               std::string(name_of(d.op)) + " does not exist for it");
  }
  const bool is_load = direction_of(d) == CopyDirection::kLoad;
  for (BoxRun& run : box->runs) {
    if (!run.in_bounds) continue;
    run.global = resolve_range(w, i, lane, MemorySpace::kGlobal,
                               is_load ? AccessKind::kRead : AccessKind::kWrite, run.global_address,
                               run.bytes, 1);
  }
  return box;
}

void load_run(const Box& box, const BoxRun& run, std::byte* shared) {
  const std::span<std::byte> to(shared + run.shared_offset, run.bytes);
  if (run.global == nullptr) return fill_run(box.fill, to);
  std::memcpy(to.data(), run.global, run.bytes);
  convert_loaded(box.map.type, to);
}

void load_box(Warp& w, const Insn& i, const TensorCopyDetail& d, int lane, uint64_t barrier,
              uint64_t shared, const std::shared_ptr<Box>& box) {
  const MemorySpace space = destination_space(d.direction);
  CopyTarget first;
  first.data = shared_place(w, i, lane, space, AccessKind::kWrite, shared, box->shared_bytes, 1);
  first.barrier =
      shared_place(w, i, lane, space, AccessKind::kAtomic, barrier, kMBarrierBytes, kMBarrierBytes);
  Issuer issuer = Issuer::of(w, i, 1u << lane);
  issuer.operation = start_async(w, i, 1u << lane, Proxy::kAsync);
  const bool is_multicast = d.block_mask != kNoSlot;
  const uint32_t block_mask = is_multicast ? w.source<uint16_t>(d.block_mask)[lane] : 0;
  for (const CopyTarget& target : copy_targets(issuer, first, is_multicast, block_mask, d.pairs)) {
    deliver(issuer, target, box->runs.size(), [box, issuer](const CopyTarget& to, CopyRange range) {
      uint32_t bytes = 0;
      for (size_t k = range.begin; k < range.end; ++k) {
        observe_async(issuer.operation, *to.data.block, to.data.offset + box->runs[k].shared_offset,
                      box->runs[k].bytes, AccessKind::kWrite);
        load_run(*box, box->runs[k], to.data.bytes());
        bytes += box->runs[k].bytes;
      }
      return bytes;
    });
  }
}

void store_run(const TensorCopyDetail& d, const Box& box, const BoxRun& run,
               const std::byte* buffer) {
  if (run.global == nullptr) return;
  const std::byte* from = buffer + run.shared_offset;
  if (d.reduces) {
    reduce_atomically(d.op, box.map.type, run.global, from, run.bytes);
  } else {
    std::memcpy(run.global, from, run.bytes);
  }
}

void store_box(Warp& w, const Insn& i, const TensorCopyDetail& d, int lane, uint64_t shared,
               const std::shared_ptr<Box>& box) {
  const SharedPlace source = shared_place(w, i, lane, MemorySpace::kShared, AccessKind::kRead,
                                          shared, box->shared_bytes, 1);
  const auto buffer = std::make_shared<std::vector<std::byte>>(box->shared_bytes);
  Issuer issuer = Issuer::of(w, i, 1u << lane);
  issuer.operation = start_async(w, i, 1u << lane, Proxy::kAsync);
  DrainSteps steps;
  steps.read = [box, buffer, source, operation = issuer.operation](CopyRange range) {
    for (size_t k = range.begin; k < range.end; ++k) {
      const CopyRun& run = box->runs[k];
      observe_async(operation, *source.block, source.offset + run.shared_offset, run.bytes,
                    AccessKind::kRead, !run.in_bounds || run.in_padding);
      std::memcpy(buffer->data() + run.shared_offset, source.bytes() + run.shared_offset,
                  run.bytes);
    }
  };
  steps.write = [&d, box, buffer, cluster = w.block->cluster](CopyRange range) {
    if (d.reduces) cluster->await_turn();
    for (size_t k = range.begin; k < range.end; ++k) {
      store_run(d, *box, box->runs[k], buffer->data());
    }
  };
  drain(issuer, *w.block, lane, box->runs.size(), steps);
}

Step tensor_copy(Warp& w, const Insn& i) {
  const auto& d = static_cast<const TensorCopyDetail&>(*i.detail);
  uint64_t maps[kWarpSize];
  uint64_t shared[kWarpSize];
  uint64_t barriers[kWarpSize];
  lane_addresses(w, d.map, maps);
  lane_addresses(w, d.shared, shared);
  lane_addresses(w, d.barrier, barriers);
  for_each_lane(w.mask, [&](int lane) {
    const auto offset = static_cast<uint32_t>(shared[lane] & kSharedOffsetMask);
    const std::shared_ptr<Box> box = make_box(w, i, d, lane, maps[lane], offset);
    if (d.direction == BulkDirection::kBlockToGlobal) {
      store_box(w, i, d, lane, shared[lane], box);
    } else {
      load_box(w, i, d, lane, barriers[lane], shared[lane], box);
    }
  });
  return Step::kNext;
}

Step do_nothing(Warp& /*w*/, const Insn& /*i*/) { return Step::kNext; }

// ---- decoding
// --------------------------------------------------------------------------------------

int take_rank(InsnDecoder& d) {
  const int rank = d.take_one({"1d", "2d", "3d", "4d", "5d"});
  if (rank < 0) d.fail("the dimension is missing");
  return rank + 1;
}

LoadMode take_mode(InsnDecoder& d) {
  switch (d.take_one({"tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs",
                      "im2col::w", "im2col::w::128"})) {
    case 1:
    case 2:
      return LoadMode::kFourRows;
    case 3:
    case 4:
      return LoadMode::kIm2col;
    case 5:
    case 6:
      d.fail(".im2col::w is not supported");
    default:
      return LoadMode::kTile;
  }
}

// [tensorMap, {coordinates}]
void decode_map(InsnDecoder& d, TensorCopyDetail& detail, const Operand& operand, int rank) {
  const bool has_vector = operand.kind == OperandKind::kAddress && operand.parts.size() == 2 &&
                          (operand.parts[1].kind == OperandKind::kVector || rank == 1);
  if (!has_vector) d.fail("the operand must be [tensorMap, {coordinates}]");
  detail.map = d.address(operand);
  const std::vector<Operand> one = {operand.parts[1]};
  const bool is_vector = operand.parts[1].kind == OperandKind::kVector;
  for (const Operand& part : is_vector ? operand.parts[1].parts : one) {
    detail.coordinates.push_back(d.source(part, ScalarType::kS32));
  }
  const size_t expected = detail.mode == LoadMode::kFourRows ? 5 : static_cast<size_t>(rank);
  if (detail.coordinates.size() != expected) {
    d.fail("there are " + std::to_string(detail.coordinates.size()) +
           " coordinates; there must be " + std::to_string(expected));
  }
}

// .im2col's {i2cOffW, i2cOffH, i2cOffD}
void decode_offsets(InsnDecoder& d, TensorCopyDetail& detail, const Operand& operand, int rank) {
  const std::vector<Operand> one = {operand};
  for (const Operand& part : operand.kind == OperandKind::kVector ? operand.parts : one) {
    detail.offsets.push_back(d.source(part, ScalarType::kB16));
  }
  if (static_cast<int>(detail.offsets.size()) != rank - 2) {
    d.fail("the number of im2col offsets must be the dimension's less 2");
  }
}

// [dstMem], [tensorMap, tensorCoords], [mbar] {, im2colInfo} {, ctaMask} {, cache-policy}
void decode_load(InsnDecoder& d, TensorCopyDetail& detail, int rank) {
  const bool is_multicast = d.take("multicast::cluster");
  if (is_multicast && detail.direction != BulkDirection::kGlobalToCluster) {
    d.fail(".multicast::cluster needs .shared::cluster.global");
  }
  const size_t count = take_cache_policy(d);
  detail.shared = d.address(0);
  decode_map(d, detail, d.operand(1), rank);
  detail.barrier = d.address(2);
  size_t at = 3;
  if (detail.mode == LoadMode::kIm2col) decode_offsets(d, detail, d.operand(at++), rank);
  if (is_multicast) detail.block_mask = d.source(at++, ScalarType::kB16);
  if (count != at) d.fail("the number of operands is wrong");
}

// [tensorMap, tensorCoords], [srcMem] {, cache-policy}
void decode_store(InsnDecoder& d, TensorCopyDetail& detail, int rank) {
  if (take_cache_policy(d) != 2) d.fail("the number of operands is wrong");
  decode_map(d, detail, d.operand(0), rank);
  detail.shared = d.address(1);
}

void emit_copy(InsnDecoder& d, TensorCopyDetail detail) {
  d.expect_no_more();
  Insn& insn = d.emit(&tensor_copy);
  d.detail<TensorCopyDetail>(insn, std::move(detail));
}

}  // namespace

void decode_tensor_copy(InsnDecoder& d) {
  TensorCopyDetail detail;
  const int rank = take_rank(d);
  detail.mode = take_mode(d);
  const int group = d.take_one({"cta_group::1", "cta_group::2"});
  detail.pairs = group == 1;
  detail.direction = take_bulk_direction(d);
  switch (detail.direction) {
    case BulkDirection::kBlockToGlobal:
      if (group >= 0) d.fail(".cta_group is of copies into shared memory");
      decode_store(d, detail, rank);
      break;
    case BulkDirection::kBlockToCluster:
      d.fail("a tensor copy must have global memory on one side");
    default:
      decode_load(d, detail, rank);
  }
  emit_copy(d, std::move(detail));
}

void decode_tensor_reduce(InsnDecoder& d) {
  TensorCopyDetail detail;
  detail.reduces = true;
  const int rank = take_rank(d);
  detail.mode = take_mode(d);
  detail.direction = take_bulk_direction(d);
  if (detail.direction != BulkDirection::kBlockToGlobal || detail.mode == LoadMode::kFourRows) {
    d.fail("it must be .global.shared::cta, with .tile or .im2col_no_offs");
  }
  detail.op = take_reduce_op(d);
  decode_store(d, detail, rank);
  emit_copy(d, std::move(detail));
}

// Caches are not modelled.
void decode_tensor_prefetch(InsnDecoder& d) {
  TensorCopyDetail detail;
  const int rank = take_rank(d);
  detail.mode = take_mode(d);
  if (!d.take("L2") || !d.take("global")) d.fail(".L2.global is missing");
  const size_t count = take_cache_policy(d);
  d.expect_no_more();
  decode_map(d, detail, d.operand(0), rank);
  size_t at = 1;
  if (detail.mode == LoadMode::kIm2col) decode_offsets(d, detail, d.operand(at++), rank);
  if (count != at) d.fail("the number of operands is wrong");
  d.emit(&do_nothing);
}

}  // namespace mpfa::sim
