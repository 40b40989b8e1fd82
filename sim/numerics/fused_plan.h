// How the fused dot-adds of matrix_multiply.h go through a matrix: in which order along k, and in
// which steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/numerics/matrix_multiply.h"

namespace mpfa::sim {

struct FusedStep {
  int begin = 0;  // in FusedPlan::order
  int end = 0;
  bool from_zero = false;  // instead of from the sum so far
  bool add_last = false;   // what the steps since the last zero made is now added to C
};

// Elements, of types that are not read as they are, by their codes; kFp8AsF16.
using CodeTable = std::array<uint16_t, 256>;

constexpr CodeTable f16_codes(ElementType type) {
  CodeTable table{};
  for (int code = 0; code < 256; ++code) {
    table[code] = f16_code_of_fp8(type, static_cast<uint8_t>(code));
  }
  return table;
}

inline constexpr CodeTable kF16OfE4m3 = f16_codes(ElementType::kE4m3);
inline constexpr CodeTable kF16OfE5m2 = f16_codes(ElementType::kE5m2);

// D is worked on row by row, in vectors of columns. Where whole vectors fit the rows of D better, a
// plan is of the transposed product, B * A^T: its a and b are the other way round.
struct FusedPlan {
  MatrixMultiply op;
  MatrixOperands operands;
  int64_t c_column_stride = 1;
  int64_t d_column_stride = 1;
  bool as_f16 = false;     // FP8 elements are converted
  std::vector<int> order;  // positions along k
  std::vector<FusedStep> steps;

  ElementType a_type() const { return as_f16 ? ElementType::kF16 : op.model.a; }
  ElementType b_type() const { return as_f16 ? ElementType::kF16 : op.model.b; }
};

// Loops run over whole vectors of columns, of any target.
inline constexpr int kColumnGranule = 16;
constexpr int padded_columns(int columns) {
  return (columns + kColumnGranule - 1) / kColumnGranule * kColumnGranule;
}

inline void transpose(FusedPlan& plan) {
  std::swap(plan.op.m, plan.op.n);
  std::swap(plan.op.model.a, plan.op.model.b);
  std::swap(plan.op.negate_a, plan.op.negate_b);
  MatrixOperands& operands = plan.operands;
  std::swap(operands.a, operands.b);
  std::swap(operands.a_stride, operands.b_stride);
  std::swap(operands.a_scales, operands.b_scales);
  std::swap(operands.a_scale_stride, operands.b_scale_stride);
  std::swap(operands.c_stride, plan.c_column_stride);
  std::swap(operands.d_stride, plan.d_column_stride);
}

inline FusedPlan fused_plan(const MatrixMultiply& op, const MatrixOperands& operands) {
  FusedPlan plan{.op = op, .operands = operands, .order = {}, .steps = {}};
  plan.as_f16 = op.model.arithmetic == Arithmetic::kFp8AsF16;
  if (int64_t{op.n} * padded_columns(op.m) < int64_t{op.m} * padded_columns(op.n)) transpose(plan);
  plan.order.resize(op.k);
  std::iota(plan.order.begin(), plan.order.end(), 0);
  for (int begin = 0; begin < op.k; begin += op.model.step_k) {
    const int end = std::min(begin + op.model.step_k, op.k);
    if (!plan.as_f16) {
      plan.steps.push_back({begin, end, false, false});
      continue;
    }
    const auto second = std::stable_partition(plan.order.begin() + begin, plan.order.begin() + end,
                                              [](int k) { return k % 4 < 2; });
    const auto middle = static_cast<int>(second - plan.order.begin());
    plan.steps.push_back({begin, middle, true, false});
    plan.steps.push_back({middle, end, false, true});
  }
  return plan;
}

}  // namespace mpfa::sim
