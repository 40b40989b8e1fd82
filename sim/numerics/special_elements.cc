#include "sim/numerics/special_elements.h"

#include <algorithm>

#include "sim/numerics/dot_add_reference.h"

namespace mpfa::sim {
namespace {

uint64_t container(int bytes, const void* containers, int64_t index) {
  switch (bytes) {
    case 1:
      return static_cast<const uint8_t*>(containers)[index];
    case 2:
      return static_cast<const uint16_t*>(containers)[index];
    default:
      return static_cast<const uint32_t*>(containers)[index];
  }
}

std::vector<uint64_t> elements(ElementType type, const void* containers, int64_t begin, int count,
                               bool negate) {
  const int sign_bit = format_of(type).sign_shift() + unused_low_bits(type);
  const uint64_t flip = negate ? uint64_t{1} << sign_bit : 0;
  std::vector<uint64_t> row(count);
  for (int k = 0; k < count; ++k) {
    row[k] = container(container_bytes(type), containers, begin + k) ^ flip;
  }
  return row;
}

std::span<const uint8_t> scales(const MatrixMultiply& op, const uint8_t* all, int64_t begin) {
  if (op.model.scale == ScaleType::kNone) return {};
  return {all + begin, static_cast<size_t>(op.k / op.model.scale_block)};
}

uint32_t element_of_d(const FusedPlan& plan, int64_t i, int64_t j) {
  const MatrixMultiply& op = plan.op;
  const MatrixOperands& from = plan.operands;
  const auto a = elements(op.model.a, from.a, i * from.a_stride, op.k, op.negate_a);
  const auto b = elements(op.model.b, from.b, j * from.b_stride, op.k, op.negate_b);
  const DotOperands operands{a, b, scales(op, from.a_scales, i * from.a_scale_stride),
                             scales(op, from.b_scales, j * from.b_scale_stride)};
  const int bytes = container_bytes(op.model.accumulator);
  const int64_t at = i * from.c_stride + j * plan.c_column_stride;
  const uint64_t c = op.add_c ? container(bytes, from.c, at) : 0;
  return static_cast<uint32_t>(dot_add_reference(op.model, operands, c));
}

}  // namespace

void SpecialElements::reset(int rows, int columns) {
  columns_ = columns;
  any_ = false;
  marked_.assign(static_cast<size_t>(rows) * columns, 0);
}

void SpecialElements::mark_row(AccumulatorType type, int64_t row, const uint32_t* sums) {
  const uint32_t infinity = type == AccumulatorType::kF16 ? 0x7C00 : 0x7F800000;
  uint8_t* marked = marked_.data() + row * columns_;
  for (int j = 0; j < columns_; ++j) {
    if ((sums[j] & infinity) != infinity) continue;
    marked[j] = 1;
    any_ = true;
  }
}

void SpecialElements::mark_operands(const std::vector<uint8_t>& rows, const int32_t* columns) {
  const bool any_column =
      std::any_of(columns, columns + columns_, [](int32_t f) { return f != 0; });
  const bool any_row = std::any_of(rows.begin(), rows.end(), [](uint8_t f) { return f != 0; });
  if (!any_row && !any_column) return;
  any_ = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int j = 0; j < columns_; ++j) {
      if (rows[i] != 0 || columns[j] != 0) marked_[i * columns_ + j] = 1;
    }
  }
}

void SpecialElements::recompute(const FusedPlan& plan, int first, int columns,
                                uint32_t* sums) const {
  if (!any_) return;
  for (int64_t i = 0; i < plan.op.m; ++i) {
    for (int j = 0; j < columns; ++j) {
      const int64_t at = i * columns_ + j;
      if (marked_[at] != 0) sums[at] = element_of_d(plan, i, first + j);
    }
  }
}

}  // namespace mpfa::sim
