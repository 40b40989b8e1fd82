// mma.sync, and mma.sp of a sparse A.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/matrix_fragment.h"
#include "sim/insn/matrix_operands.h"
#include "sim/insn/matrix_shape.h"
#include "sim/insn/quad_pair.h"
#include "sim/insn/sparse_matrix.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {
namespace {

struct MmaDetail : InsnDetail {
  MatrixMultiply op;  // sparse: of the stored elements
  std::vector<Slot> a;
  std::vector<Slot> b;
  std::vector<Slot> c;
  std::vector<Slot> d;
  // Of a sparse A.
  SparseMetadata sparsity;
  Slot metadata = kNoSlot;
};

constexpr size_t kMostRows = 16;
constexpr size_t kMostRowBytes = 128;  // of A and B: k16 of f64, k128 of s4
constexpr size_t kColumns = 8;

Step multiply(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& detail = static_cast<const MmaDetail&>(*i.detail);
  const MatrixMultiply& op = detail.op;
  const ElementType a_type = op.model.a;
  const AccumulatorType accumulator = op.model.accumulator;
  alignas(64) std::array<std::byte, kMostRows * kMostRowBytes> a;
  alignas(64) std::array<std::byte, kColumns * kMostRowBytes> b;
  alignas(64) std::array<std::byte, kMostRows * kColumns * 8> c;
  alignas(64) std::array<std::byte, kMostRows * kColumns * 8> d;
  const bool is_sparse = detail.metadata != kNoSlot;
  const int64_t stride = containers_of(a_type, op.k);
  const int64_t b_stride = is_sparse ? 2 * stride : stride;
  gather_a(w.bases[0], detail.a, a_type, op.m, a.data(), stride);
  gather_b(w.bases[0], detail.b, op.model.b, b.data(), b_stride);
  gather_c(w.bases[0], detail.c, accumulator, op.m, c.data(), kColumns);
  const MatrixOperands operands = {.a = a.data(),
                                   .a_stride = stride,
                                   .b = b.data(),
                                   .b_stride = b_stride,
                                   .c = c.data(),
                                   .c_stride = kColumns,
                                   .d = d.data(),
                                   .d_stride = kColumns};
  if (is_sparse) {
    std::array<uint16_t, kMostRows * kMostRowBytes> positions;
    detail.sparsity.positions(w, i, w.source<uint32_t>(detail.metadata), positions.data());
    sparse_multiply(op, operands, positions.data());
  } else {
    matrix_multiply(op, operands);
  }
  scatter_d(w.bases[0], detail.d, accumulator, op.m, d.data(), kColumns);
  return Step::kNext;
}

// The k of the shapes that a type has (PTX ISA, "mma" and "mma.sp"), for m = 16 if nothing else is
// said.
struct ShapesOfType {
  std::vector<ElementType> types;
  std::vector<int> k;
  std::vector<int> sparse_k;
  std::vector<int> k_of_m8;
};

const std::vector<ShapesOfType>& shapes_of_types() {
  using enum ElementType;
  static const std::vector<ShapesOfType> kShapes = {
      {{kF16, kBf16}, {8, 16}, {16, 32}, {}}, {{kTf32}, {4, 8}, {8, 16}, {}},
      {{kE4m3, kE5m2}, {16, 32}, {64}, {}},   {{kF64}, {4, 8, 16}, {}, {4}},
      {{kS8, kU8}, {16, 32}, {32, 64}, {16}}, {{kS4, kU4}, {32, 64}, {64, 128}, {32}},
      {{kB1}, {128, 256}, {}, {128}},
  };
  return kShapes;
}

bool has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool has_shape(const MatrixShape& shape, ElementType a, bool is_sparse) {
  if (shape.n != kColumns) return false;
  for (const ShapesOfType& each : shapes_of_types()) {
    if (std::find(each.types.begin(), each.types.end(), a) == each.types.end()) continue;
    if (shape.m == kMostRows) return has(is_sparse ? each.sparse_k : each.k, shape.k);
    return shape.m == 8 && !is_sparse && has(each.k_of_m8, shape.k);
  }
  return false;
}

void take_metadata(InsnDecoder& d, const MatrixShape& shape, MmaDetail& detail) {
  detail.op.k = shape.k / 2;
  detail.sparsity.type = detail.op.model.a;
  detail.sparsity.k = shape.k;
  detail.sparsity.selector = take_sparsity_selector(d, 5, detail.sparsity);
  detail.metadata = d.source(4, ScalarType::kB32);
}

}  // namespace

void decode_mma(InsnDecoder& d) {
  const bool is_sparse = d.take_one({"sp", "sp::ordered_metadata"}) >= 0;
  d.take("sync");
  d.take("aligned");
  MmaDetail detail;
  const MatrixShape shape = take_matrix_shape(d);
  if (is_quad_pair(d, shape)) return decode_quad_pair_mma(d);
  detail.op.m = shape.m;
  detail.op.n = shape.n;
  detail.op.k = shape.k;
  d.take("row");
  d.take("col");
  const bool saturate = d.take("satfinite");
  const int rounding = d.take_one({"rn", "rz", "rm", "rp"});
  const int bit_operation = d.take_one({"xor", "and"});
  d.take("popc");
  const AccumulatorType accumulator = take_accumulator_type(d);
  const ElementType a = take_element_type(d);
  const ElementType b = take_element_type(d);
  const AccumulatorType c_type = take_accumulator_type(d);
  d.expect_no_more();
  if (rounding >= 0) {
    static constexpr std::array kModes = {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown,
                                          Rounding::kUp};
    if (a != ElementType::kF64) d.fail("only .f64 has a rounding mode");
    detail.op.rounding = kModes[static_cast<size_t>(rounding)];
  }
  if (c_type != accumulator) d.fail("C and D must have the same type in this shape");
  if (!has_shape(shape, a, is_sparse)) {
    d.fail(internal::str_cat("there is no m", shape.m, "n", shape.n, "k", shape.k, " of ",
                             name_of(a), is_sparse ? " with a sparse A" : ""));
  }
  try {
    detail.op.model = model_for(architecture_of(d), MmaKind::kMmaSync, a, b, accumulator);
  } catch (const InvalidArgument& error) {
    d.fail(error.what());
  }
  detail.op.model.saturate = saturate;
  if (bit_operation == 0) detail.op.model.bit_operation = BitOperation::kXor;
  if (is_sparse) take_metadata(d, shape, detail);
  detail.d = matrix_targets(d, d.operand(0));
  detail.a = matrix_sources(d, d.operand(1));
  detail.b = matrix_sources(d, d.operand(2));
  detail.c = matrix_sources(d, d.operand(3));
  const int64_t accumulators = accumulator_registers(shape.m, shape.n, accumulator);
  expect_registers(d, "A", detail.a.size(), operand_registers(shape.m, detail.op.k, a));
  expect_registers(d, "B", detail.b.size(), operand_registers(shape.n, shape.k, b));
  expect_registers(d, "C", detail.c.size(), accumulators);
  expect_registers(d, "D", detail.d.size(), accumulators);
  Insn& insn = d.emit(&multiply);
  insn.splits = true;
  d.detail<MmaDetail>(insn, std::move(detail));
}

}  // namespace mpfa::sim
