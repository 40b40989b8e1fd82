// mma.sync.m8n8k4 of f16, the shape of sm_70's tensor cores (PTX ISA, "Matrix Fragments for
// mma.m8n8k4 with .f16 floating point type"). Quad pair q, lanes 4 q to 4 q + 3 and those 16 above,
// has a product of its own. Of its 8 threads number i has the lane's two low bits and, as its bit
// 2, the lane's bit 4.
//
// Later GPUs have no such instruction: ptxas makes ordinary arithmetic of it, the same for all.
// What it was found to be is checked against an H200.
#include "sim/insn/quad_pair.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/insn/matrix_operands.h"
#include "sim/insn/warp_sync.h"
#include "sim/numerics/float_type.h"
#include "sim/numerics/resize.h"

namespace mpfa::sim {
namespace {

constexpr int kPairs = 4;
constexpr int kThreads = 8;  // of a quad pair
constexpr int kSize = 8;     // rows and columns
constexpr int kDepth = 4;

struct QuadPairDetail : InsnDetail {
  std::vector<Slot> a;
  std::vector<Slot> b;
  std::vector<Slot> c;
  std::vector<Slot> d;
  bool a_across = false;  // .col: a thread has 4 rows of one k
  bool b_across = false;  // .row: a thread has 4 columns of one k
  bool half_c = false;    // C is f16
  bool half_d = false;
};

template <size_t kColumns>
using Matrix = std::array<std::array<float, kColumns>, kSize>;

int lane_of(int pair, int thread) { return 4 * pair + thread % 4 + 16 * (thread / 4); }

float half_at(const Warp& w, const std::vector<Slot>& slots, int lane, int element) {
  const uint32_t word = w.source<uint32_t>(slots[static_cast<size_t>(element / 2)])[lane];
  return widened(Fp16{static_cast<uint16_t>(word >> 16 * (element % 2))});
}

// A, or B with its columns as rows: [line][k].
Matrix<kDepth> gather(const Warp& w, const std::vector<Slot>& slots, bool across, int pair) {
  Matrix<kDepth> out{};
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int e = 0; e < kDepth; ++e) {
      const int line = across ? thread / 4 * 4 + e : thread;
      const int k = across ? thread % 4 : e;
      out[static_cast<size_t>(line)][static_cast<size_t>(k)] =
          half_at(w, slots, lane_of(pair, thread), e);
    }
  }
  return out;
}

struct Place {
  size_t row = 0;
  size_t column = 0;
};

// Of accumulator `element` of a thread. An f16 thread has a row.
Place accumulator_place(bool is_half, int thread, int element) {
  if (is_half) return {static_cast<size_t>(thread), static_cast<size_t>(element)};
  const int row = thread % 2 + 2 * (element / 2 % 2) + thread / 4 * 4;
  const int column = element % 2 + thread / 2 % 2 * 2 + element / 4 * 4;
  return {static_cast<size_t>(row), static_cast<size_t>(column)};
}

Matrix<kSize> gather_c(const Warp& w, const QuadPairDetail& detail, int pair) {
  Matrix<kSize> out{};
  for (int thread = 0; thread < kThreads; ++thread) {
    const int lane = lane_of(pair, thread);
    for (int e = 0; e < kSize; ++e) {
      const Place at = accumulator_place(detail.half_c, thread, e);
      out[at.row][at.column] = detail.half_c
                                   ? half_at(w, detail.c, lane, e)
                                   : w.source<float>(detail.c[static_cast<size_t>(e)])[lane];
    }
  }
  return out;
}

void scatter_d(Warp& w, const QuadPairDetail& detail, int pair, const Matrix<kSize>& d) {
  for (int thread = 0; thread < kThreads; ++thread) {
    const int lane = lane_of(pair, thread);
    for (int e = 0; e < kSize; ++e) {
      const Place at = accumulator_place(detail.half_d, thread, e);
      const float value = d[at.row][at.column];
      if (detail.half_d) {
        const auto half = narrowed<Fp16>(value, Rounding::kNearestEven);
        const Slot slot = detail.d[static_cast<size_t>(e / 2)];
        w.target<uint16_t>(slot)[2 * lane + e % 2] = half.bits;
      } else {
        w.target<float>(detail.d[static_cast<size_t>(e)])[lane] = canonical(value);
      }
    }
  }
}

// Products of two f16 are exact in f32: these multiply-adds round once.
float dot(const std::array<float, kDepth>& a, const std::array<float, kDepth>& b, float c,
          bool to_half) {
  if (to_half) return c + (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3]);
  float sum = 0;
  for (size_t k = 0; k < kDepth; ++k) sum += a[k] * b[k];
  return c + sum;
}

Step multiply(Warp& w, const Insn& i) {
  if (!gather_warp(w)) return Step::kBlock;
  const auto& detail = static_cast<const QuadPairDetail&>(*i.detail);
  for (int pair = 0; pair < kPairs; ++pair) {
    const Matrix<kDepth> a = gather(w, detail.a, detail.a_across, pair);
    const Matrix<kDepth> b = gather(w, detail.b, detail.b_across, pair);
    Matrix<kSize> d = gather_c(w, detail, pair);
    for (size_t row = 0; row < kSize; ++row) {
      for (size_t column = 0; column < kSize; ++column) {
        d[row][column] = dot(a[row], b[column], d[row][column], detail.half_d);
      }
    }
    scatter_d(w, detail, pair, d);
  }
  return Step::kNext;
}

bool expect_layout(InsnDecoder& d) {
  const std::string layout = d.take_first();
  if (layout != "row" && layout != "col") d.fail("the layouts of A and B are missing");
  return layout == "col";
}

bool is_half(InsnDecoder& d, AccumulatorType type) {
  if (type == AccumulatorType::kF16) return true;
  if (type != AccumulatorType::kF32) d.fail("C and D must be f16 or f32");
  return false;
}

}  // namespace

bool is_quad_pair(const InsnDecoder& d, const MatrixShape& shape) {
  const auto& left = d.left();
  const bool is_f16 = std::count(left.begin(), left.end(), "f16") >= 2;
  return shape.m == kSize && shape.n == kSize && shape.k == kDepth && is_f16;
}

void decode_quad_pair_mma(InsnDecoder& d) {
  QuadPairDetail detail;
  detail.a_across = expect_layout(d);
  detail.b_across = !expect_layout(d);
  detail.half_d = is_half(d, take_accumulator_type(d));
  const ElementType a = take_element_type(d);
  const ElementType b = take_element_type(d);
  if (a != ElementType::kF16 || b != ElementType::kF16) d.fail("A and B must be f16");
  detail.half_c = is_half(d, take_accumulator_type(d));
  if (detail.half_d && !detail.half_c) d.fail("D must be f32 where C is f32");
  d.expect_no_more();
  detail.d = matrix_targets(d, d.operand(0));
  detail.a = matrix_sources(d, d.operand(1));
  detail.b = matrix_sources(d, d.operand(2));
  detail.c = matrix_sources(d, d.operand(3));
  expect_registers(d, "A", detail.a.size(), kDepth / 2);
  expect_registers(d, "B", detail.b.size(), kDepth / 2);
  expect_registers(d, "C", detail.c.size(), detail.half_c ? kSize / 2 : kSize);
  expect_registers(d, "D", detail.d.size(), detail.half_d ? kSize / 2 : kSize);
  Insn& insn = d.emit(&multiply);
  insn.splits = true;
  d.detail<QuadPairDetail>(insn, std::move(detail));
}

}  // namespace mpfa::sim
