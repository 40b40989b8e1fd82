// wgmma: a warpgroup's asynchronous matrix products (PTX ISA, "Asynchronous Warpgroup Level Matrix
// Instructions"). D has 64 rows, 16 for each warp.
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/function_decoder.h"
#include "sim/insn/matrix_fragment.h"
#include "sim/insn/matrix_operands.h"
#include "sim/insn/matrix_shape.h"
#include "sim/insn/sparse_matrix.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/machine/monitor.h"
#include "sim/machine/register_watch.h"
#include "sim/machine/warpgroup.h"
#include "sim/numerics/matrix_multiply.h"
#include "sim/tensor_map/matrix_descriptor.h"

namespace mpfa::sim {
namespace {

constexpr int kRows = 64;
constexpr int kRowsOfWarp = 16;

struct WgmmaDetail : InsnDetail {
  MatrixMultiply op;  // of a sparse A: k is that of the stored elements
  std::vector<Slot> d;
  std::vector<Slot> a;  // in registers; empty: in shared memory
  Slot a_descriptor = kNoSlot;
  Slot b_descriptor = kNoSlot;
  Slot scale_d = kNoSlot;  // predicate; kNoSlot: always added
  MajorDimension a_major = MajorDimension::kK;
  MajorDimension b_major = MajorDimension::kK;
  // Of a sparse A.
  SparseMetadata sparsity;
  Slot metadata = kNoSlot;

  bool is_sparse() const { return metadata != kNoSlot; }
  // Containers of a row.
  int64_t a_columns() const { return containers_of(op.model.a, op.k); }
  int64_t b_columns() const { return is_sparse() ? 2 * a_columns() : a_columns(); }
  uint64_t shape() const {
    return static_cast<uint64_t>(op.n) << 16 | static_cast<uint64_t>(b_columns()) << 8 |
           static_cast<uint64_t>(op.model.accumulator);
  }
};

// A descriptor as the operand's layout, its address within the block's own memory.
OperandLayout layout_of(uint64_t bits, MajorDimension major, ElementType type) {
  const MatrixDescriptor descriptor = decode_wgmma_descriptor(bits);
  return {descriptor, major, static_cast<uint32_t>(container_bytes(type))};
}

// Tells the checks of what an operand takes up, in the 16 bytes that every layout keeps together.
void observe_operand(const AsyncHandle& checks, const Block& block, const OperandLayout& layout,
                     MajorDimension major, ElementType type, int rows, int64_t columns) {
  if (checks == nullptr) return;
  constexpr int64_t kChunkBytes = 16;
  const int64_t step = kChunkBytes / container_bytes(type);
  const bool along_k = major == MajorDimension::kK;
  for (int64_t row = 0; row < rows; row += along_k ? 1 : step) {
    for (int64_t k = 0; k < columns; k += along_k ? step : 1) {
      observe_async(checks, block,
                    layout.address(static_cast<uint32_t>(row), static_cast<uint32_t>(k)),
                    static_cast<uint64_t>(kChunkBytes), AccessKind::kRead);
    }
  }
}

void gather_shared(const AsyncHandle& checks, const Block& block, uint64_t bits,
                   MajorDimension major, ElementType type, int rows, int64_t columns,
                   std::vector<std::byte>& out) {
  out.resize(static_cast<size_t>(rows * columns * container_bytes(type)));
  const OperandLayout layout = layout_of(bits, major, type);
  layout.gather(block.shared, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns), out);
  observe_operand(checks, block, layout, major, type, rows, columns);
}

// Where in B's k what is stored of A's rows belongs.
void gather_positions(const WgmmaOperation& operation, std::vector<uint16_t>& positions) {
  const auto& detail = static_cast<const WgmmaDetail&>(*operation.insn->detail);
  const auto each = static_cast<size_t>(kSparseRows) * static_cast<size_t>(detail.op.k);
  positions.resize(kWarpsOfGroup * each);
  for (size_t warp = 0; warp < kWarpsOfGroup; ++warp) {
    detail.sparsity.positions(*operation.warps[warp], *operation.insn,
                              operation.metadata[warp].data(), positions.data() + warp * each);
  }
}

// What the tensor core does, when it does.
void run_operation(const WgmmaOperation& operation) {
  const auto& detail = static_cast<const WgmmaDetail&>(*operation.insn->detail);
  const Warp& first = *operation.warps[0];
  const Block& block = *first.block;
  const ElementType a_type = detail.op.model.a;
  const AccumulatorType d_type = detail.op.model.accumulator;
  const int64_t columns = detail.a_columns();
  const int64_t n = detail.op.n;
  thread_local std::vector<std::byte> a;
  thread_local std::vector<std::byte> b;
  thread_local std::vector<std::byte> d;
  const auto a_row_bytes = static_cast<size_t>(columns * container_bytes(a_type));
  try {
    if (detail.a.empty()) {
      gather_shared(operation.checks, block, operation.a_descriptor, detail.a_major, a_type, kRows,
                    columns, a);
    } else {
      a.resize(kRows * a_row_bytes);
    }
    gather_shared(operation.checks, block, operation.b_descriptor, detail.b_major,
                  detail.op.model.b, static_cast<int>(n), detail.b_columns(), b);
  } catch (const MatrixDescriptorError& error) {
    first.fail(FaultKind::kCheck, *operation.insn, kAllLanes,
               std::string("wgmma: ") + error.what());
  }
  const auto d_row_bytes = static_cast<size_t>(n * container_bytes(d_type));
  d.resize(kRows * d_row_bytes);
  MatrixMultiply op = detail.op;
  op.add_c = operation.add_d;
  for (size_t warp = 0; warp < kWarpsOfGroup; ++warp) {
    const size_t row = warp * kRowsOfWarp;
    if (!detail.a.empty()) {
      gather_a(operation.registers[warp], detail.a, a_type, kRowsOfWarp,
               a.data() + row * a_row_bytes, columns);
    }
    if (op.add_c) {
      gather_c(operation.registers[warp], detail.d, d_type, kRowsOfWarp,
               d.data() + row * d_row_bytes, n);
    }
  }
  const MatrixOperands operands = {.a = a.data(),
                                   .a_stride = columns,
                                   .b = b.data(),
                                   .b_stride = detail.b_columns(),
                                   .c = d.data(),
                                   .c_stride = n,
                                   .d = d.data(),
                                   .d_stride = n};
  if (detail.is_sparse()) {
    thread_local std::vector<uint16_t> positions;
    gather_positions(operation, positions);
    sparse_multiply(op, operands, positions.data());
  } else {
    matrix_multiply(op, operands);
  }
  for (size_t warp = 0; warp < kWarpsOfGroup; ++warp) {
    scatter_d(operation.registers[warp], detail.d, d_type, kRowsOfWarp,
              d.data() + warp * kRowsOfWarp * d_row_bytes, n);
  }
}

Warpgroup& warpgroup_of(Warp& w) {
  auto& groups = w.block->warpgroups;
  const size_t at = w.index / kWarpsOfGroup;
  if (groups.size() <= at) groups.resize(at + 1);
  if (!groups[at]) groups[at] = std::make_unique<Warpgroup>(&run_operation);
  return *groups[at];
}

int index_in_group(const Warp& w) { return static_cast<int>(w.index % kWarpsOfGroup); }

void set_common(Warp& w, const Insn& i, WgmmaOperation& operation, const WgmmaOperation& mine) {
  const bool is_first = operation.issued == 1;
  if (is_first) {
    operation.insn = mine.insn;
    operation.a_descriptor = mine.a_descriptor;
    operation.b_descriptor = mine.b_descriptor;
    operation.add_d = mine.add_d;
    return;
  }
  if (operation.insn != mine.insn) {
    w.fail(FaultKind::kCheck, i, w.mask, "the warps of a warpgroup issue different wgmma");
  }
  if (operation.a_descriptor != mine.a_descriptor || operation.b_descriptor != mine.b_descriptor ||
      operation.add_d != mine.add_d) {
    w.fail(FaultKind::kCheck, i, w.mask,
           "the warps of a warpgroup have different descriptors or scale-d");
  }
}

Step issue(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  if (w.live() != kAllLanes) {
    w.fail(FaultKind::kCheck, i, w.mask, "a warp of fewer than 32 threads issues wgmma");
  }
  const auto& detail = static_cast<const WgmmaDetail&>(*i.detail);
  WgmmaOperation mine;
  mine.insn = &i;
  if (detail.a_descriptor != kNoSlot) {
    mine.a_descriptor =
        common_value<uint64_t>(w, i, detail.a_descriptor, "have different descriptors of A");
  }
  mine.b_descriptor =
      common_value<uint64_t>(w, i, detail.b_descriptor, "have different descriptors of B");
  if (detail.scale_d != kNoSlot) {
    const uint32_t bits = w.predicate(detail.scale_d);
    if (bits != 0 && bits != kAllLanes) {
      w.fail(FaultKind::kCheck, i, w.mask, "threads of a warp have different scale-d");
    }
    mine.add_d = bits != 0;
  }
  Warpgroup& group = warpgroup_of(w);
  const int index = index_in_group(w);
  watch_wgmma(w, i, group.issued(index), detail.shape());
  WgmmaOperation& operation = group.issue(index);
  set_common(w, i, operation, mine);
  operation.warps[static_cast<size_t>(index)] = &w;
  operation.registers[static_cast<size_t>(index)] = w.bases[0];
  operation.storage[static_cast<size_t>(index)] = w.split->frame->storage;
  if (detail.is_sparse()) {
    std::memcpy(operation.metadata[static_cast<size_t>(index)].data(),
                w.source<uint32_t>(detail.metadata), sizeof(operation.metadata[0]));
  }
  if (operation.checks == nullptr) {
    operation.checks = start_async(w, i, kAllLanes, Proxy::kTensorCore);
  } else {
    w.monitor->join_async(*operation.checks, w, kAllLanes);
  }
  if (operation.issued < kWarpsOfGroup) return Step::kNext;
  w.block->cluster->notify();
  const uint64_t count = group.complete();
  w.block->cluster->defer([&group, count] { group.run_until(count); });
  return Step::kNext;
}

Step commit(Warp& w, const Insn& /*i*/) {
  if (!gather_warp(w)) return Step::kBlock;
  warpgroup_of(w).commit(index_in_group(w));
  return Step::kNext;
}

Step wait(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  Warpgroup& group = warpgroup_of(w);
  const uint64_t needed = group.needed(index_in_group(w), static_cast<uint64_t>(i.imm));
  if (!group.run_until(needed)) {
    return w.block_on("at wgmma.wait_group, for wgmma of the other warps of its warpgroup");
  }
  finish_async(w, kAllLanes, group.take_waited(index_in_group(w), needed), false);
  return Step::kNext;
}

Step fence(Warp& w, const Insn& /*i*/) {
  if (!gather_warp(w)) return Step::kBlock;
  warpgroup_of(w).fence(index_in_group(w));
  return Step::kNext;
}

// ---- decoding
// --------------------------------------------------------------------------------------

bool take_sign(InsnDecoder& d, size_t at) {
  const int64_t sign = d.immediate(at);
  if (sign != 1 && sign != -1) d.fail("a scale of A or B must be 1 or -1");
  return sign < 0;
}

MajorDimension take_major(InsnDecoder& d, size_t at) {
  const int64_t transposed = d.immediate(at);
  if (transposed != 0 && transposed != 1) d.fail("a transposition must be 0 or 1");
  return transposed != 0 ? MajorDimension::kMn : MajorDimension::kK;
}

// scale-d, and for floating-point types imm-scale-a, imm-scale-b, and for 16-bit ones the
// transpositions of what is in shared memory.
void take_tail(InsnDecoder& d, WgmmaDetail& detail, size_t at) {
  if (at < d.count()) {
    const Operand& scale = d.operand(at++);
    if (scale.kind == OperandKind::kInteger) {
      detail.scale_d = d.constant(scale.bits != 0 ? kAllLanes : 0, 1);
    } else {
      detail.scale_d = d.predicate(scale);
    }
  }
  if (at + 1 < d.count() && !is_integer(detail.op.model.a)) {
    detail.op.negate_a = take_sign(d, at);
    detail.op.negate_b = take_sign(d, at + 1);
    at += 2;
  }
  if (at < d.count() && detail.a.empty()) detail.a_major = take_major(d, at++);
  if (at < d.count()) detail.b_major = take_major(d, at++);
  if (at < d.count()) d.fail("too many operands");
}

// Elements of k in the 32 bytes that every dense wgmma has of a row.
int dense_k(ElementType type) {
  return type == ElementType::kB1 ? 256 : 32 / container_bytes(type);
}

void expect_shape(InsnDecoder& d, const MatrixShape& shape, ElementType a, bool is_sparse) {
  const int k = is_sparse ? 2 * dense_k(a) : dense_k(a);
  const bool has_n = shape.n >= 8 && shape.n <= 256 && shape.n % 8 == 0;
  if (is_sparse && a == ElementType::kB1) d.fail("there is no sparse A of bits");
  if (shape.m == kRows && shape.k == k && has_n) return;
  d.fail(internal::str_cat("the shape must be m64, n8 to n256 in steps of 8, and k", k));
}

// The operands that a sparse A has before scale-d: their number.
size_t take_sparsity(InsnDecoder& d, const MatrixShape& shape, WgmmaDetail& detail) {
  detail.op.k = shape.k / 2;
  detail.sparsity.type = detail.op.model.a;
  detail.sparsity.k = shape.k;
  detail.metadata = d.source(3, ScalarType::kB32);
  detail.sparsity.selector = take_sparsity_selector(d, 4, detail.sparsity);
  return 2;
}

void decode_multiply(InsnDecoder& d, bool is_sparse) {
  WgmmaDetail detail;
  const MatrixShape shape = take_matrix_shape(d);
  detail.op.m = shape.m;
  detail.op.n = shape.n;
  detail.op.k = shape.k;
  const bool saturate = d.take("satfinite");
  d.take("and");
  d.take("popc");
  const AccumulatorType accumulator = take_accumulator_type(d);
  const ElementType a = take_element_type(d);
  const ElementType b = take_element_type(d);
  d.expect_no_more();
  expect_shape(d, shape, a, is_sparse);
  try {
    detail.op.model = model_for(architecture_of(d), MmaKind::kWgmma, a, b, accumulator);
  } catch (const InvalidArgument& error) {
    d.fail(error.what());
  }
  detail.op.model.saturate = saturate;
  detail.d = matrix_targets(d, d.operand(0));
  expect_registers(d, "D", detail.d.size(),
                   accumulator_registers(kRowsOfWarp, shape.n, accumulator));
  if (d.operand(1).kind == OperandKind::kVector) {
    detail.a = matrix_sources(d, d.operand(1));
    expect_registers(d, "A", detail.a.size(), 4);
  } else {
    detail.a_descriptor = d.source(1, ScalarType::kB64);
  }
  detail.b_descriptor = d.source(2, ScalarType::kB64);
  const size_t more = is_sparse ? take_sparsity(d, shape, detail) : 0;
  take_tail(d, detail, 3 + more);
  if (RegisterUses* uses = d.function().register_uses()) uses->wgmma(detail.d, detail.a);
  Insn& insn = d.emit(&issue);
  insn.splits = true;
  d.detail<WgmmaDetail>(insn, std::move(detail));
}

}  // namespace

void decode_wgmma(InsnDecoder& d) {
  d.take("sync");
  d.take("aligned");
  const bool is_sparse = d.take("sp");
  if (d.take("mma_async")) return decode_multiply(d, is_sparse);
  const int op = d.take_one({"fence", "commit_group", "wait_group"});
  d.expect_no_more();
  if (op < 0) d.fail("one of .mma_async, .fence, .commit_group and .wait_group is missing");
  const int64_t pending = op == 2 ? d.immediate(0) : 0;
  if (pending < 0 || pending > 7) d.fail("the number of groups must be in 0 to 7");
  Insn& insn = d.emit(op == 0 ? &fence : op == 1 ? &commit : &wait);
  insn.splits = true;
  insn.imm = pending;
}

}  // namespace mpfa::sim
