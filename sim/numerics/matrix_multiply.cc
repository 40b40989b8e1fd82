#include "sim/numerics/matrix_multiply.h"

// Baseline, AVX2 and AVX-512; arrays of vectors need vectors of a known size.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/numerics/matrix_multiply.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mpfa/check.h"
#include "sim/numerics/dot_add_reference.h"
#include "sim/numerics/exact_multiply.h"
#include "sim/numerics/fused_decode-inl.h"
#include "sim/numerics/fused_groups-inl.h"
#include "sim/numerics/fused_plan.h"
#include "sim/numerics/fused_step-inl.h"
#include "sim/numerics/special_elements.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

// Columns of D in the making, codes in 32-bit containers: [row][column].
struct Block {
  int first = 0;  // column
  int columns = 0;
  std::vector<uint32_t> sums;
  std::vector<uint32_t> partial;  // kFp8AsF16: the sum without C
  SpecialElements special;

  uint32_t* sum(int64_t row) { return sums.data() + row * kBlockColumns; }
  uint32_t* part(int64_t row) { return partial.data() + row * kBlockColumns; }
};

// What one thread needs, kept from call to call.
struct Workspace {
  RowOperands rows;
  ColumnOperands columns;
  GroupRows group_rows;
  GroupColumns group_columns;
  Block block;
};

template <class T>
void load_block(const FusedPlan& plan, Block& block) {
  const int64_t step = plan.c_column_stride;
  const T* c = static_cast<const T*>(plan.operands.c) + block.first * step;
  for (int64_t i = 0; i < plan.op.m; ++i) {
    const T* row = c + i * plan.operands.c_stride;
    uint32_t* sum = block.sum(i);
    for (int j = 0; j < block.columns; ++j) sum[j] = row[j * step];
  }
}

template <class T>
void store_block(const FusedPlan& plan, Block& block) {
  const int64_t step = plan.d_column_stride;
  T* d = static_cast<T*>(plan.operands.d) + block.first * step;
  for (int64_t i = 0; i < plan.op.m; ++i) {
    T* row = d + i * plan.operands.d_stride;
    const uint32_t* sum = block.sum(i);
    for (int j = 0; j < block.columns; ++j) row[j * step] = static_cast<T>(sum[j]);
  }
}

// block.sum = block.sum + block.part, rounded to nearest even.
void add_partial(const FusedPlan& plan, Block& block) {
  const AccumulatorType type = plan.op.model.accumulator;
  const int columns = padded_columns(block.columns);
  for (int64_t i = 0; i < plan.op.m; ++i) {
    uint32_t* sum = block.sum(i);
    const uint32_t* part = block.part(i);
    block.special.mark_row(type, i, sum);
    block.special.mark_row(type, i, part);
    if (type == AccumulatorType::kF32) {
      for (int j = 0; j < columns; ++j) {
        sum[j] = bits_of(from_bits<float>(sum[j]) + from_bits<float>(part[j]));
      }
    } else {
      for (int j = 0; j < columns; ++j) {
        // A float has more than twice the bits of an f16, so that rounding twice does no harm.
        const float exact = float_of_code(kF16, sum[j]) + float_of_code(kF16, part[j]);
        sum[j] = round_float(kF16, exact, Rounding::kNearestEven, false);
      }
    }
  }
}

void run_step(const FusedPlan& plan, const FusedStep& step, Workspace& work) {
  const DotAddModel& model = plan.op.model;
  Block& block = work.block;
  const bool grouped = model.arithmetic == Arithmetic::kFusedGroupAdd;
  if (grouped) {
    decode_group_columns(plan, step, block.first, block.columns, work.group_columns,
                         work.columns.special);
  } else {
    decode_columns(plan, step, block.first, block.columns, work.columns);
  }
  const int length = step.end - step.begin;
  const int columns = padded_columns(block.columns);
  for (int64_t i = 0; i < plan.op.m; ++i) {
    uint32_t* d = plan.as_f16 ? block.part(i) : block.sum(i);
    if (step.from_zero) std::fill(d, d + columns, 0);
    RowStart start;
    if (start_row(model.accumulator, d, columns, start))
      block.special.mark_row(model.accumulator, i, d);
    if (grouped) {
      const int64_t group = i * work.group_rows.groups + step.begin / kScaledGroup;
      const GroupStep a{work.group_rows.values.data() + i * plan.op.k + step.begin,
                        work.group_rows.significand.data() + group,
                        work.group_rows.exponent.data() + group, length};
      fused_group_row(model, a, work.group_columns, start, block.columns, d);
    } else {
      const int64_t at = i * plan.op.k + step.begin;
      const RowStep a{work.rows.significand.data() + at, work.rows.sign.data() + at,
                      work.rows.exponent.data() + at, length};
      fused_row(model, a, work.columns, start, block.columns, d);
    }
  }
  if (step.add_last) add_partial(plan, block);
}

void run_block(const FusedPlan& plan, const std::vector<uint8_t>& special_rows, Workspace& work) {
  Block& block = work.block;
  const bool f16 = plan.op.model.accumulator == AccumulatorType::kF16;
  const auto size = static_cast<size_t>(plan.op.m) * kBlockColumns;
  block.sums.assign(size, 0);
  if (plan.as_f16) block.partial.resize(size);
  block.special.reset(plan.op.m, kBlockColumns);
  std::fill(std::begin(work.columns.special), std::end(work.columns.special), 0);
  if (plan.op.add_c) f16 ? load_block<uint16_t>(plan, block) : load_block<uint32_t>(plan, block);
  for (const FusedStep& step : plan.steps) run_step(plan, step, work);
  block.special.mark_operands(special_rows, work.columns.special);
  block.special.recompute(plan, block.first, block.columns, block.sums.data());
  f16 ? store_block<uint16_t>(plan, block) : store_block<uint32_t>(plan, block);
}

void fused_multiply_on_target(const FusedPlan& plan) {
  thread_local Workspace work;
  const bool grouped = plan.op.model.arithmetic == Arithmetic::kFusedGroupAdd;
  grouped ? decode_group_rows(plan, work.group_rows) : decode_rows(plan, work.rows);
  for (int first = 0; first < plan.op.n; first += kBlockColumns) {
    work.block.first = first;
    work.block.columns = std::min(kBlockColumns, plan.op.n - first);
    run_block(plan, grouped ? work.group_rows.special : work.rows.special, work);
  }
}

}  // namespace
}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {
namespace {

HWY_EXPORT(fused_multiply_on_target);

void check(const MatrixMultiply& op, const MatrixOperands& operands) {
  const DotAddModel& model = op.model;
  MPFA_CHECK(op.m > 0 && op.n > 0 && op.k > 0, "matrices of m = ", op.m, ", n = ", op.n,
             ", k = ", op.k, ": must be positive");
  MPFA_CHECK(model.a != ElementType::kB1 || op.k % 32 == 0, "k = ", op.k,
             " bits: must be a multiple of 32");
  const bool signed_floats = is_fused_type(model.a);
  MPFA_CHECK(signed_floats || (!op.negate_a && !op.negate_b), "negated operand of type ",
             name_of(model.a), ": only floating-point types but f64 can be negated");
  MPFA_CHECK(operands.a != nullptr && operands.b != nullptr && operands.d != nullptr,
             "operands a, b and d: must not be null");
  MPFA_CHECK(operands.c != nullptr || !op.add_c, "operand c: must not be null where it is added");
  if (model.scale == ScaleType::kNone) return;
  MPFA_CHECK(op.k % model.scale_block == 0, "k = ", op.k, ": must be a multiple of the ",
             model.scale_block, " elements that share a scale");
  MPFA_CHECK(operands.a_scales != nullptr && operands.b_scales != nullptr,
             "scales of a and b: must not be null in a block-scaled product");
}

}  // namespace

void matrix_multiply(const MatrixMultiply& op, const MatrixOperands& operands) {
  check(op, operands);
  switch (op.model.arithmetic) {
    case Arithmetic::kSequentialFma:
      return f64_multiply(op, operands);
    case Arithmetic::kInteger:
      return integer_multiply(op, operands);
    case Arithmetic::kPopulation:
      return population_multiply(op, operands);
    default:
      break;
  }
  HWY_DYNAMIC_DISPATCH(fused_multiply_on_target)(fused_plan(op, operands));
}

}  // namespace mpfa::sim
#endif
