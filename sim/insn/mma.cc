// mma.sync.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/matrix_fragment.h"
#include "sim/insn/matrix_shape.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {
namespace {

struct MmaDetail : InsnDetail {
  MatrixMultiply op;
  AccumulatorType c_type = AccumulatorType::kF32;  // may differ from D's in f16 instructions
  std::vector<Slot> a;
  std::vector<Slot> b;
  std::vector<Slot> c;
  std::vector<Slot> d;
};

constexpr size_t kMostRows = 16;
constexpr size_t kMostContainers = 64;  // of a row of A: k64 of s4
constexpr size_t kColumns = 8;

Step multiply(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& detail = static_cast<const MmaDetail&>(*i.detail);
  const MatrixMultiply& op = detail.op;
  alignas(64) std::array<std::byte, kMostRows * kMostContainers * 4> a;
  alignas(64) std::array<std::byte, kColumns * kMostContainers * 4> b;
  alignas(64) std::array<std::byte, kMostRows * kColumns * 8> c;
  alignas(64) std::array<std::byte, kMostRows * kColumns * 8> d;
  const bool bits = op.model.a == ElementType::kB1;
  const int64_t stride = bits ? op.k / 32 : op.k;
  gather_a(w.bases[0], detail.a, op.model.a, op.m, a.data(), stride);
  gather_b(w.bases[0], detail.b, op.model.b, b.data(), stride);
  gather_c(w.bases[0], detail.c, detail.c_type, op.m, c.data(), kColumns);
  matrix_multiply(op, {.a = a.data(),
                       .a_stride = stride,
                       .b = b.data(),
                       .b_stride = stride,
                       .c = c.data(),
                       .c_stride = kColumns,
                       .d = d.data(),
                       .d_stride = kColumns});
  scatter_d(w.bases[0], detail.d, op.model.accumulator, op.m, d.data(), kColumns);
  return Step::kNext;
}

// Registers of one operand; constants are not allowed.
std::vector<Slot> registers_of(InsnDecoder& d, const Operand& operand, bool is_target) {
  const std::vector<Operand> one = {operand};
  const auto& parts = operand.kind == OperandKind::kVector ? operand.parts : one;
  std::vector<Slot> slots;
  for (const Operand& part : parts) {
    const ScalarType type =
        d.register_bits(part, ScalarType::kB32) == 64 ? ScalarType::kB64 : ScalarType::kB32;
    slots.push_back(is_target ? d.target(part, type) : d.register_source(part, type));
  }
  return slots;
}

void expect_count(InsnDecoder& d, const char* name, size_t have, int64_t want) {
  if (static_cast<int64_t>(have) != want) {
    d.fail(internal::str_cat(name, " has ", have, " registers; the shape has ", want));
  }
}

int64_t accumulator_registers(const MatrixMultiply& op, AccumulatorType type) {
  const int64_t elements = int64_t{op.m} * op.n / kWarpSize;
  return type == AccumulatorType::kF16 ? elements / 2 : elements;
}

int64_t operand_registers(int64_t rows, int k, ElementType type) {
  const int containers = type == ElementType::kB1 ? k / 32 : k;
  return rows * containers / (kWarpSize * elements_of_register(type));
}

}  // namespace

void decode_mma(InsnDecoder& d) {
  if (d.take("sp") || d.take("sp::ordered_metadata")) {
    d.fail("sparse matrices are not simulated yet");
  }
  d.take("sync");
  d.take("aligned");
  MmaDetail detail;
  const MatrixShape shape = take_matrix_shape(d);
  detail.op.m = shape.m;
  detail.op.n = shape.n;
  detail.op.k = shape.k;
  d.take("row");
  d.take("col");
  const bool saturate = d.take("satfinite");
  const int bit_operation = d.take_one({"xor", "and"});
  d.take("popc");
  const AccumulatorType accumulator = take_accumulator_type(d);
  const ElementType a = take_element_type(d);
  const ElementType b = take_element_type(d);
  detail.c_type = take_accumulator_type(d);
  d.expect_no_more();
  if (shape.m == 8 && shape.k == 4 && a == ElementType::kF16) {
    d.fail("m8n8k4 of f16, sm_70's shape, is not simulated");
  }
  if (detail.c_type != accumulator) d.fail("C and D of different types are not simulated");
  try {
    detail.op.model = model_for(architecture_of(d), MmaKind::kMmaSync, a, b, accumulator);
  } catch (const InvalidArgument& error) {
    d.fail(error.what());
  }
  detail.op.model.saturate = saturate;
  if (bit_operation == 0) detail.op.model.bit_operation = BitOperation::kXor;
  detail.d = registers_of(d, d.operand(0), true);
  detail.a = registers_of(d, d.operand(1), false);
  detail.b = registers_of(d, d.operand(2), false);
  detail.c = registers_of(d, d.operand(3), false);
  expect_count(d, "A", detail.a.size(), operand_registers(shape.m, shape.k, a));
  expect_count(d, "B", detail.b.size(), operand_registers(shape.n, shape.k, b));
  expect_count(d, "C", detail.c.size(), accumulator_registers(detail.op, accumulator));
  expect_count(d, "D", detail.d.size(), accumulator_registers(detail.op, accumulator));
  Insn& insn = d.emit(&multiply);
  insn.splits = true;
  d.detail<MmaDetail>(insn, std::move(detail));
}

}  // namespace mpfa::sim
