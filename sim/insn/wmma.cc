// wmma.load, wmma.store and wmma.mma (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions
// using wmma"). The ISA leaves open which element a register holds; here it is as on an H200: a
// product is made of mma.sync tiles of 16 x 8, and m8n32 is the transposed product of m32n8.
//
// With g = lane / 4, t = lane % 4 and P elements of a 32-bit register, a register of A holds the
// elements k + P t to k + P t + P - 1 of row line + g, one of B those of column line + g; a
// register of accumulators the columns column + 2 t (and + 1, of f16) of row + g, of m8n32 the
// other way round. Its Place says which line, k, row and column. Where the ISA has more registers
// than the matrix has elements, they repeat.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "mpfa/check.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/insn/matrix_fragment.h"
#include "sim/insn/matrix_operands.h"
#include "sim/insn/matrix_shape.h"
#include "sim/insn/memory_operand.h"
#include "sim/insn/warp_sync.h"
#include "sim/machine/block.h"
#include "sim/machine/monitor.h"
#include "sim/numerics/matrix_multiply.h"
#include "sim/numerics/resize.h"
#include "sim/numerics/rounding.h"

namespace mpfa::sim {
namespace {

constexpr int kTile = 8;

enum class Matrix : uint8_t { kA, kB, kAccumulator };

// The first element of a register, at lane 0: `line` along the dimension that g runs through (rows
// of A, columns of B), `across` along the other.
struct Place {
  int line = 0;
  int across = 0;
};

struct Fragment {
  Matrix matrix = Matrix::kA;
  MatrixShape shape;
  int element_bits = 16;
  int in_register = 2;  // elements
  int per_thread = 2;   // elements along `across` from a thread to the next
  bool lines_are_columns = false;
  std::vector<Place> places;  // of each register

  int lane_bytes() const { return in_register * element_bits / 8; }
};

// m8n32 is worked on transposed.
bool is_transposed(const MatrixShape& shape) { return shape.n > shape.m; }

// Of the operand that takes the place of A in mma.sync.
int lines_of_wide_tile(int lines) { return std::min(lines, 2 * kTile); }

// Tile after tile, each as a fragment of mma.sync.
std::vector<Place> operand_places(int lines, int k, int k_of_register, bool is_wide) {
  std::vector<Place> places;
  const int lines_together = is_wide ? lines_of_wide_tile(lines) : kTile;
  for (int first = 0; first < lines; first += lines_together) {
    for (int at = 0; at < k; at += k_of_register) {
      for (int line = first; line < first + lines_together; line += kTile) {
        places.push_back({line, at});
      }
    }
  }
  return places;
}

Fragment operand_fragment(Matrix matrix, const MatrixShape& shape, ElementType type) {
  Fragment f;
  f.matrix = matrix;
  f.shape = shape;
  f.in_register = type == ElementType::kB1 ? 32 : elements_of_register(type);
  f.element_bits = type == ElementType::kF64 ? 64 : 32 / f.in_register;
  f.per_thread = f.in_register;
  const bool is_a = matrix == Matrix::kA;
  f.lines_are_columns = !is_a;
  const bool is_wide = is_a != is_transposed(shape);
  const int lines = is_a ? shape.m : shape.n;
  f.places = operand_places(lines, shape.k, 4 * f.in_register, is_wide);
  constexpr size_t kRegistersOfF16 = 8;
  // No other type has registers to spare.
  if (type == ElementType::kF16) {
    const size_t distinct = f.places.size();
    for (size_t i = distinct; i < kRegistersOfF16; ++i) f.places.push_back(f.places[i - distinct]);
  }
  return f;
}

// Columns in tiles of 8, in each the rows in tiles of 8, in these the two elements of a thread.
Fragment accumulator_fragment(const MatrixShape& shape, AccumulatorType type) {
  Fragment f;
  f.matrix = Matrix::kAccumulator;
  f.shape = shape;
  f.element_bits = 8 * container_bytes(type);
  f.in_register = type == AccumulatorType::kF16 ? 2 : 1;
  f.per_thread = 2;
  f.lines_are_columns = is_transposed(shape);
  const int lines = f.lines_are_columns ? shape.n : shape.m;
  const int across = f.lines_are_columns ? shape.m : shape.n;
  for (int tile = 0; tile < across; tile += kTile) {
    for (int line = 0; line < lines; line += kTile) {
      for (int e = 0; e < 2; e += f.in_register) f.places.push_back({line, tile + e});
    }
  }
  return f;
}

// ---- load and store
// --------------------------------------------------------------------------------

struct WmmaMoveDetail : InsnDetail {
  Fragment fragment;
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  Slot stride = kNoSlot;  // elements from a row or column to the next
  bool is_column_major = false;
  std::vector<Slot> slots;
};

struct Origin {
  uint64_t address = 0;
  int64_t stride = 0;
};

// Address and stride, which all threads must agree on (PTX ISA, "wmma.load").
Origin origin_of(Warp& w, const Insn& i, const WmmaMoveDetail& m) {
  alignas(64) uint64_t addresses[kWarpSize];
  lane_addresses(w, m.address, addresses);
  const auto* strides = w.source<uint32_t>(m.stride);
  const auto first = static_cast<size_t>(std::countr_zero(w.mask));
  for (size_t lane = first; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    if (addresses[lane] != addresses[first] || strides[lane] != strides[first]) {
      w.fail(FaultKind::kCheck, i, 1u << lane,
             "threads of a warp have different addresses or strides");
    }
  }
  return {addresses[first], static_cast<int32_t>(strides[first])};
}

// Whether a register's elements follow each other in memory.
bool is_contiguous(const WmmaMoveDetail& m) {
  return m.is_column_major == m.fragment.lines_are_columns || m.fragment.in_register == 1;
}

// The addresses of element `e` of a register.
void locate(const WmmaMoveDetail& m, const Origin& origin, const Place& place, int e,
            uint64_t* addresses) {
  const Fragment& f = m.fragment;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int64_t line = place.line + lane / 4;
    const int64_t across = place.across + f.per_thread * (lane % 4) + e;
    const bool line_is_outer = m.is_column_major == f.lines_are_columns;
    const int64_t element =
        line_is_outer ? line * origin.stride + across : across * origin.stride + line;
    addresses[lane] = origin.address + static_cast<uint64_t>(element * f.element_bits / 8);
  }
}

// Calls visit(places, first byte in the register, bytes) for what of a register lies together.
template <class Visit>
void visit_register(Warp& w, const Insn& i, const WmmaMoveDetail& m, const Origin& origin,
                    const Place& place, AccessKind kind, Visit visit) {
  const int pieces = is_contiguous(m) ? 1 : m.fragment.in_register;
  const int bytes = m.fragment.lane_bytes() / pieces;
  for (int piece = 0; piece < pieces; ++piece) {
    alignas(64) uint64_t addresses[kWarpSize];
    std::byte* places[kWarpSize];
    locate(m, origin, place, piece, addresses);
    const Access access = {.space = m.space,
                           .kind = kind,
                           .bytes = static_cast<uint32_t>(bytes),
                           .addresses = addresses};
    resolve(w, i, access, places);
    observe(w, i, access);
    visit(places, piece * bytes, bytes);
  }
}

Step load(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& m = static_cast<const WmmaMoveDetail&>(*i.detail);
  const Origin origin = origin_of(w, i, m);
  const auto lane_bytes = static_cast<size_t>(m.fragment.lane_bytes());
  for (size_t r = 0; r < m.slots.size(); ++r) {
    std::byte* to = w.target<std::byte>(m.slots[r]);
    visit_register(w, i, m, origin, m.fragment.places[r], AccessKind::kRead,
                   [&](std::byte** places, int first, int bytes) {
                     for (size_t lane = 0; lane < kWarpSize; ++lane) {
                       if ((w.mask >> lane & 1) == 0) continue;
                       std::memcpy(to + lane * lane_bytes + first, places[lane],
                                   static_cast<size_t>(bytes));
                     }
                   });
  }
  return Step::kNext;
}

Step store(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& m = static_cast<const WmmaMoveDetail&>(*i.detail);
  const Origin origin = origin_of(w, i, m);
  const auto lane_bytes = static_cast<size_t>(m.fragment.lane_bytes());
  for (size_t r = 0; r < m.slots.size(); ++r) {
    const std::byte* from = w.source<std::byte>(m.slots[r]);
    visit_register(w, i, m, origin, m.fragment.places[r], AccessKind::kWrite,
                   [&](std::byte** places, int first, int bytes) {
                     for (size_t lane = 0; lane < kWarpSize; ++lane) {
                       if ((w.mask >> lane & 1) == 0) continue;
                       std::memcpy(places[lane], from + lane * lane_bytes + first,
                                   static_cast<size_t>(bytes));
                     }
                   });
  }
  return Step::kNext;
}

// ---- multiply
// --------------------------------------------------------------------------------------

// The registers of an operand for the lines of one mma.sync each.
using Tiles = std::vector<std::vector<Slot>>;

struct WmmaDetail : InsnDetail {
  MatrixMultiply op;                               // of what is computed: transposed for m8n32
  AccumulatorType c_type = AccumulatorType::kF32;  // either may be f16 where the sum is f32
  AccumulatorType d_type = AccumulatorType::kF32;
  Tiles wide;    // the operand that is in mma.sync's A's place
  Tiles narrow;  // the other
  std::vector<Slot> c;
  std::vector<Slot> d;
};

constexpr size_t kMostAccumulators = 256;
constexpr size_t kMostOperandBytes = 1024;

// Copies an operand out of its tiles' registers, with `gather`, to rows of `row_bytes`.
template <class Gather>
void gather_tiles(const Tiles& tiles, int lines, size_t row_bytes, std::byte* out, Gather gather) {
  for (const std::vector<Slot>& slots : tiles) {
    gather(slots, out);
    out += static_cast<size_t>(lines) * row_bytes;
  }
}

using Accumulators = std::array<std::byte, kMostAccumulators * sizeof(float)>;

void widen(Accumulators& values, size_t count) {
  for (size_t at = count; at-- > 0;) {
    Fp16 half;
    std::memcpy(&half.bits, values.data() + at * sizeof(half.bits), sizeof(half.bits));
    const float wide = widened(half);
    std::memcpy(values.data() + at * sizeof(wide), &wide, sizeof(wide));
  }
}

void narrow(Accumulators& values, size_t count) {
  for (size_t at = 0; at < count; ++at) {
    float wide;
    std::memcpy(&wide, values.data() + at * sizeof(wide), sizeof(wide));
    const Fp16 half = narrowed<Fp16>(wide, Rounding::kNearestEven);
    std::memcpy(values.data() + at * sizeof(half.bits), &half.bits, sizeof(half.bits));
  }
}

Step multiply(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& detail = static_cast<const WmmaDetail&>(*i.detail);
  const MatrixMultiply& op = detail.op;
  const AccumulatorType sum_type = op.model.accumulator;
  alignas(64) std::array<std::byte, kMostOperandBytes> wide;
  alignas(64) std::array<std::byte, kMostOperandBytes> other;
  alignas(64) Accumulators values;
  const int64_t stride = containers_of(op.model.a, op.k);
  const auto row_bytes = static_cast<size_t>(stride * container_bytes(op.model.a));
  const int lines = lines_of_wide_tile(op.m);
  gather_tiles(detail.wide, lines, row_bytes, wide.data(),
               [&](const std::vector<Slot>& slots, std::byte* out) {
                 gather_a(w.bases[0], slots, op.model.a, lines, out, stride);
               });
  gather_tiles(detail.narrow, kTile, row_bytes, other.data(),
               [&](const std::vector<Slot>& slots, std::byte* out) {
                 gather_b(w.bases[0], slots, op.model.b, out, stride);
               });
  gather_c(w.bases[0], detail.c, detail.c_type, op.m, values.data(), op.n);
  const auto count = static_cast<size_t>(op.m) * static_cast<size_t>(op.n);
  if (detail.c_type != sum_type) widen(values, count);
  const MatrixOperands operands = {.a = wide.data(),
                                   .a_stride = stride,
                                   .b = other.data(),
                                   .b_stride = stride,
                                   .c = values.data(),
                                   .c_stride = op.n,
                                   .d = values.data(),
                                   .d_stride = op.n};
  matrix_multiply(op, operands);
  if (detail.d_type != sum_type) narrow(values, count);
  scatter_d(w.bases[0], detail.d, detail.d_type, op.m, values.data(), op.n);
  return Step::kNext;
}

// ---- decoding
// --------------------------------------------------------------------------------------

// Shapes and types of the ISA's tables "Matrix Shape".
bool has_shape(const MatrixShape& s, ElementType type) {
  const auto is = [&](int m, int n, int k) { return s.m == m && s.n == n && s.k == k; };
  using enum ElementType;
  switch (type) {
    case kTf32:
      return is(16, 16, 8);
    case kF64:
      return is(8, 8, 4);
    case kS4:
    case kU4:
      return is(8, 8, 32);
    case kB1:
      return is(8, 8, 128);
    case kF16:
    case kBf16:
    case kS8:
    case kU8:
      return is(16, 16, 16) || is(8, 32, 16) || is(32, 8, 16);
    default:
      return false;
  }
}

void expect_shape(InsnDecoder& d, const MatrixShape& shape, ElementType type) {
  if (has_shape(shape, type)) return;
  d.fail(internal::str_cat("there is no m", shape.m, "n", shape.n, "k", shape.k, " of ",
                           name_of(type)));
}

bool take_column_major(InsnDecoder& d) {
  const int layout = d.take_one({"row", "col"});
  if (layout < 0) d.fail("the layout, .row or .col, is missing");
  return layout == 1;
}

Fragment take_fragment(InsnDecoder& d, Matrix matrix, const MatrixShape& shape) {
  if (matrix == Matrix::kAccumulator) {
    return accumulator_fragment(shape, take_accumulator_type(d));
  }
  const ElementType type = take_element_type(d);
  expect_shape(d, shape, type);
  return operand_fragment(matrix, shape, type);
}

int rows_of(const Fragment& f) { return f.matrix == Matrix::kB ? f.shape.k : f.shape.m; }
int columns_of(const Fragment& f) { return f.matrix == Matrix::kA ? f.shape.k : f.shape.n; }

void decode_move(InsnDecoder& d, bool is_load) {
  const int which = d.take_one({"a", "b", "c", "d"});
  const bool is_result = which == 3;
  if (which < 0 || is_result == is_load) d.fail("one of .load.a, .load.b, .load.c and .store.d");
  d.take("sync");
  d.take("aligned");
  WmmaMoveDetail m;
  m.is_column_major = take_column_major(d);
  const MatrixShape shape = take_matrix_shape(d);
  const size_t memory = is_load ? 1 : 0;
  m.address = d.address(memory);
  m.space = take_space(d, m.address);
  m.fragment = take_fragment(d,
                             which == 0   ? Matrix::kA
                             : which == 1 ? Matrix::kB
                                          : Matrix::kAccumulator,
                             shape);
  d.expect_no_more();
  if (m.fragment.element_bits < 8 && !is_contiguous(m)) {
    d.fail("A must be .row and B .col for types of less than 8 bits");
  }
  const int line = m.is_column_major ? rows_of(m.fragment) : columns_of(m.fragment);
  m.stride =
      d.count() > 2 ? d.source(2, ScalarType::kB32) : d.constant(static_cast<uint64_t>(line), 32);
  const Operand& registers = d.operand(1 - memory);
  m.slots = is_load ? matrix_targets(d, registers) : matrix_sources(d, registers);
  expect_registers(d, "the matrix", m.slots.size(), static_cast<int64_t>(m.fragment.places.size()));
  Insn& insn = d.emit(is_load ? &load : &store);
  insn.splits = true;
  d.detail<WmmaMoveDetail>(insn, std::move(m));
}

Rounding take_rounding(InsnDecoder& d) {
  static constexpr std::array kModes = {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown,
                                        Rounding::kUp};
  const int mode = d.take_one({"rn", "rz", "rm", "rp"});
  return mode < 0 ? Rounding::kNearestEven : kModes[static_cast<size_t>(mode)];
}

struct WmmaTypes {
  AccumulatorType d;
  ElementType a;
  ElementType b;
  AccumulatorType c;
};

// .f32.f16 is D and C of f16 products; other types name all four.
WmmaTypes take_types(InsnDecoder& d) {
  constexpr size_t kAll = 4;
  const AccumulatorType to = take_accumulator_type(d);
  const bool names_operands = d.left().size() + 1 >= kAll;
  const ElementType a = names_operands ? take_element_type(d) : ElementType::kF16;
  const ElementType b = names_operands ? take_element_type(d) : ElementType::kF16;
  return {to, a, b, take_accumulator_type(d)};
}

void set_model(InsnDecoder& d, const WmmaTypes& types, WmmaDetail& detail) {
  const bool mixed = types.c != types.d;
  if (mixed && (types.a != ElementType::kF16)) d.fail("C and D must have the same type");
  const AccumulatorType sum = mixed ? AccumulatorType::kF32 : types.d;
  try {
    detail.op.model = model_for(architecture_of(d), MmaKind::kMmaSync, types.a, types.b, sum);
  } catch (const InvalidArgument& error) {
    d.fail(error.what());
  }
  // ptxas makes HMMA.1684 of tf32, on every architecture: steps of 4.
  if (types.a == ElementType::kTf32) detail.op.model.step_k = 4;
}

Tiles tiles_of(const std::vector<Slot>& slots, int count) {
  const size_t each = slots.size() / static_cast<size_t>(count);
  Tiles tiles;
  for (size_t at = 0; at < slots.size(); at += each) {
    const auto first = slots.begin() + static_cast<int64_t>(at);
    tiles.emplace_back(first, first + static_cast<int64_t>(each));
  }
  return tiles;
}

void decode_multiply(InsnDecoder& d) {
  WmmaDetail detail;
  const int bit_operation = d.take_one({"xor", "and"});
  d.take("popc");
  d.take("sync");
  d.take("aligned");
  // The layouts are those of the loads: a fragment is the same for both.
  for (int i = 0; i < 2; ++i) d.take_one({"row", "col"});
  const MatrixShape shape = take_matrix_shape(d);
  const bool saturate = d.take("satfinite");
  detail.op.rounding = take_rounding(d);
  const WmmaTypes types = take_types(d);
  d.expect_no_more();
  expect_shape(d, shape, types.a);
  set_model(d, types, detail);
  if (saturate && !is_integer(types.a)) d.fail(".satfinite is for integers");
  if (detail.op.rounding != Rounding::kNearestEven && types.a != ElementType::kF64) {
    d.fail("a rounding is for f64");
  }
  detail.op.model.saturate = saturate;
  if (bit_operation == 0) detail.op.model.bit_operation = BitOperation::kXor;
  detail.c_type = types.c;
  detail.d_type = types.d;
  detail.d = matrix_targets(d, d.operand(0));
  std::vector<Slot> a = matrix_sources(d, d.operand(1));
  std::vector<Slot> b = matrix_sources(d, d.operand(2));
  detail.c = matrix_sources(d, d.operand(3));
  const auto expect = [&](const char* name, const std::vector<Slot>& slots, const Fragment& f) {
    expect_registers(d, name, slots.size(), static_cast<int64_t>(f.places.size()));
  };
  expect("A", a, operand_fragment(Matrix::kA, shape, types.a));
  expect("B", b, operand_fragment(Matrix::kB, shape, types.b));
  expect("C", detail.c, accumulator_fragment(shape, types.c));
  expect("D", detail.d, accumulator_fragment(shape, types.d));
  a.resize(static_cast<size_t>(operand_registers(shape.m, shape.k, types.a)));
  b.resize(static_cast<size_t>(operand_registers(shape.n, shape.k, types.b)));
  detail.op.m = shape.m;
  detail.op.n = shape.n;
  detail.op.k = shape.k;
  if (is_transposed(shape)) {
    std::swap(a, b);
    std::swap(detail.op.m, detail.op.n);
    std::swap(detail.op.model.a, detail.op.model.b);
  }
  detail.wide = tiles_of(a, detail.op.m / lines_of_wide_tile(detail.op.m));
  detail.narrow = tiles_of(b, detail.op.n / kTile);
  Insn& insn = d.emit(&multiply);
  insn.splits = true;
  d.detail<WmmaDetail>(insn, std::move(detail));
}

}  // namespace

void decode_wmma(InsnDecoder& d) {
  switch (d.take_one({"load", "store", "mma"})) {
    case 0:
      return decode_move(d, true);
    case 1:
      return decode_move(d, false);
    case 2:
      return decode_multiply(d);
    default:
      d.fail("one of .load, .store and .mma is missing");
  }
}

}  // namespace mpfa::sim
