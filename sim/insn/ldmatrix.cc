// ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16 bits between shared memory and a warp's
// registers. Lane l holds, of row l / 4, columns 2 * (l % 4) and the next; transposed: of column
// l / 4, those rows (PTX ISA, "ldmatrix").
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/machine/monitor.h"

namespace mpfa::sim {
namespace {

constexpr int kRows = 8;
constexpr uint32_t kRowBytes = 16;

using Matrix = std::array<std::array<uint16_t, kRows>, kRows>;

struct MatrixMoveDetail : InsnDetail {
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  std::vector<Slot> slots;  // of 32 bits, one a matrix
  bool transposed = false;
};

// Where the rows lie: row r of matrix j at the address of lane 8 j + r.
void locate_rows(Warp& w, const Insn& i, const MatrixMoveDetail& m, AccessKind kind,
                 std::byte** places) {
  alignas(64) uint64_t addresses[kWarpSize];
  lane_addresses(w, m.address, addresses);
  const auto rows = static_cast<int>(m.slots.size()) * kRows;
  const uint32_t all = w.mask;
  w.mask = rows == kWarpSize ? kAllLanes : (1u << rows) - 1;
  const Access access = {
      .space = m.space, .kind = kind, .bytes = kRowBytes, .addresses = addresses};
  resolve(w, i, access, places);
  observe(w, i, access);
  w.mask = all;
}

// The pair of elements that a lane holds.
uint32_t pair_of(const Matrix& matrix, int lane, bool transposed) {
  const auto line = static_cast<size_t>(lane / 4);
  const auto first = static_cast<size_t>(2 * (lane % 4));
  const uint32_t low = transposed ? matrix[first][line] : matrix[line][first];
  const uint32_t high = transposed ? matrix[first + 1][line] : matrix[line][first + 1];
  return high << 16 | low;
}

void set_pair(Matrix& matrix, int lane, bool transposed, uint32_t pair) {
  const auto line = static_cast<size_t>(lane / 4);
  const auto first = static_cast<size_t>(2 * (lane % 4));
  const auto low = static_cast<uint16_t>(pair);
  const auto high = static_cast<uint16_t>(pair >> 16);
  (transposed ? matrix[first][line] : matrix[line][first]) = low;
  (transposed ? matrix[first + 1][line] : matrix[line][first + 1]) = high;
}

Step load_matrices(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& m = static_cast<const MatrixMoveDetail&>(*i.detail);
  std::byte* places[kWarpSize];
  locate_rows(w, i, m, AccessKind::kRead, places);
  for (size_t j = 0; j < m.slots.size(); ++j) {
    Matrix matrix;
    for (size_t row = 0; row < kRows; ++row) {
      std::memcpy(matrix[row].data(), places[j * kRows + row], kRowBytes);
    }
    uint32_t* to = w.target<uint32_t>(m.slots[j]);
    for (int lane = 0; lane < kWarpSize; ++lane) to[lane] = pair_of(matrix, lane, m.transposed);
  }
  return Step::kNext;
}

Step store_matrices(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& m = static_cast<const MatrixMoveDetail&>(*i.detail);
  std::byte* places[kWarpSize];
  locate_rows(w, i, m, AccessKind::kWrite, places);
  for (size_t j = 0; j < m.slots.size(); ++j) {
    const uint32_t* from = w.source<uint32_t>(m.slots[j]);
    Matrix matrix;
    for (int lane = 0; lane < kWarpSize; ++lane) set_pair(matrix, lane, m.transposed, from[lane]);
    for (size_t row = 0; row < kRows; ++row) {
      std::memcpy(places[j * kRows + row], matrix[row].data(), kRowBytes);
    }
  }
  return Step::kNext;
}

Step transpose_matrix(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const uint32_t* from = w.source<uint32_t>(i.a);
  Matrix matrix;
  for (int lane = 0; lane < kWarpSize; ++lane) set_pair(matrix, lane, false, from[lane]);
  uint32_t* to = w.target<uint32_t>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) to[lane] = pair_of(matrix, lane, true);
  return Step::kNext;
}

void decode_matrix_move(InsnDecoder& d, bool is_load) {
  MatrixMoveDetail m;
  m.address = d.address(is_load ? 1 : 0);
  m.space = take_space(d, m.address);
  d.take("sync");
  d.take("aligned");
  m.transposed = d.take("trans");
  if (d.take_one({"m16n16", "m8n16", "m16n8"}) >= 0) {
    d.fail("shapes other than m8n8 exist from sm_100a on, which is not simulated");
  }
  d.take("m8n8");
  static constexpr std::array kCounts = {1, 2, 4};
  const int at = d.take_one({"x1", "x2", "x4"});
  if (at < 0) d.fail("one of .x1, .x2 and .x4 is missing");
  if (d.expect_type() != ScalarType::kB16) d.fail("the type must be .b16");
  d.expect_no_more();
  const Operand& registers = d.operand(is_load ? 0 : 1);
  const std::vector<Operand> one = {registers};
  const auto& parts = registers.kind == OperandKind::kVector ? registers.parts : one;
  for (const Operand& part : parts) {
    m.slots.push_back(is_load ? d.target(part, ScalarType::kB32)
                              : d.source(part, ScalarType::kB32));
  }
  if (m.slots.size() != static_cast<size_t>(kCounts[static_cast<size_t>(at)])) {
    d.fail("the number of registers is not that of the matrices");
  }
  Insn& insn = d.emit(is_load ? &load_matrices : &store_matrices);
  insn.splits = true;
  d.detail<MatrixMoveDetail>(insn, std::move(m));
}

}  // namespace

void decode_ldmatrix(InsnDecoder& d) { decode_matrix_move(d, true); }
void decode_stmatrix(InsnDecoder& d) { decode_matrix_move(d, false); }

void decode_movmatrix(InsnDecoder& d) {
  for (const char* modifier : {"sync", "aligned", "m8n8", "trans"}) {
    if (!d.take(modifier)) d.fail("." + std::string(modifier) + " is missing");
  }
  const bool is_right = d.expect_type() == ScalarType::kB16;
  d.expect_no_more();
  if (!is_right) d.fail("the type must be .b16");
  const Slot from = d.source(1, ScalarType::kB32);
  const Slot to = d.target(0, ScalarType::kB32);
  Insn& insn = d.emit(&transpose_matrix);
  insn.splits = true;
  insn.dst = to;
  insn.a = from;
}

}  // namespace mpfa::sim
