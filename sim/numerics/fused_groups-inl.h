// One step of fused dot-adds whose terms are scaled groups of e2m1 products (mxf4, mxf4nvf4), of
// one row of A with a block of columns of B.
//
// A group's sum, an integer in quarters, times the significands of two scales is less than 2^20.
// Terms are doubles in units of 2^(largest exponent - fraction bits): with 35 fraction bits, less
// than 2^47, so that sums are exact.
// Per-target include guard.
#if defined(MPFA_SIM_NUMERICS_FUSED_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_SIM_NUMERICS_FUSED_GROUPS_INL_H_
#undef MPFA_SIM_NUMERICS_FUSED_GROUPS_INL_H_
#else
#define MPFA_SIM_NUMERICS_FUSED_GROUPS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/numerics/fused_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {

inline constexpr int kMaxGroups = kMaxStep / kScaledGroup;

// Twice the value of an e2m1 code.
HWY_INLINE int32_t doubled_e2m1(uint32_t code) {
  constexpr int8_t kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return kDoubled[code & 0xF];
}

struct GroupRows {
  std::vector<int32_t> values;       // [m][k], doubled
  std::vector<int32_t> significand;  // of the scale, [m][group]
  std::vector<int32_t> exponent;
  std::vector<uint8_t> special;  // [m]: has a NaN scale
  int groups = 0;                // of a row
};

HWY_INLINE void decode_group_rows(const FusedPlan& plan, GroupRows& rows) {
  const MatrixMultiply& op = plan.op;
  const auto* codes = static_cast<const uint8_t*>(plan.operands.a);
  const int32_t factor = op.negate_a != op.negate_b ? -1 : 1;
  rows.groups = (op.k + kScaledGroup - 1) / kScaledGroup;
  rows.values.clear();
  rows.significand.clear();
  rows.exponent.clear();
  rows.special.assign(op.m, 0);
  for (int64_t i = 0; i < op.m; ++i) {
    for (int k = 0; k < op.k; ++k) {
      rows.values.push_back(factor * doubled_e2m1(codes[i * plan.operands.a_stride + k]));
    }
    const uint8_t* scales = plan.operands.a_scales + i * plan.operands.a_scale_stride;
    for (int g = 0; g < rows.groups; ++g) {
      const uint8_t code = scales[g * kScaledGroup / op.model.scale_block];
      const DecodedFloat scale = decode_scale(op.model.scale, code);
      rows.significand.push_back(static_cast<int32_t>(scale.significand));
      rows.exponent.push_back(scale.exponent);
      if (scale.kind != DecodedFloat::Kind::kFinite) rows.special[i] = 1;
    }
  }
}

// One step of a block of columns.
struct GroupColumns {
  alignas(64) int32_t values[kMaxStep * kBlockColumns];  // [k][column], doubled
  alignas(64) int32_t significand[kMaxGroups * kBlockColumns];
  alignas(64) int32_t exponent[kMaxGroups * kBlockColumns];
};

HWY_INLINE void decode_group_columns(const FusedPlan& plan, const FusedStep& step, int first,
                                     int columns, GroupColumns& out, int32_t* special) {
  const DotAddModel& model = plan.op.model;
  const auto* codes = static_cast<const uint8_t*>(plan.operands.b);
  for (int j = 0; j < padded_columns(columns); ++j) {
    // Columns beyond the last repeat it.
    const int64_t column = first + std::min(j, columns - 1);
    const uint8_t* row = codes + column * plan.operands.b_stride + step.begin;
    for (int k = 0; k < step.end - step.begin; ++k) {
      out.values[k * kBlockColumns + j] = doubled_e2m1(row[k]);
    }
    const uint8_t* scales = plan.operands.b_scales + column * plan.operands.b_scale_stride;
    for (int k = step.begin; k < step.end; k += kScaledGroup) {
      const DecodedFloat scale = decode_scale(model.scale, scales[k / model.scale_block]);
      const int at = (k - step.begin) / kScaledGroup * kBlockColumns + j;
      out.significand[at] = static_cast<int32_t>(scale.significand);
      out.exponent[at] = scale.exponent;
      if (scale.kind != DecodedFloat::Kind::kFinite) special[j] = -1;
    }
  }
}

// Groups of one row: sums times scales' significands, and exponents; [group][column].
struct GroupTerms {
  alignas(64) int32_t units[kMaxGroups * kBlockColumns];
  alignas(64) int32_t exponent[kMaxGroups * kBlockColumns];
};

// A row's values and scales at a step's first group.
struct GroupStep {
  const int32_t* values;
  const int32_t* significand;
  const int32_t* exponent;
  int length;

  int groups() const { return (length + kScaledGroup - 1) / kScaledGroup; }
};

HWY_INLINE void sum_groups(const GroupStep& a, const GroupColumns& b, int columns,
                           GroupTerms& out) {
  const DI32 d;
  for (int g = 0; g < a.groups(); ++g) {
    const VI32 significand = hn::Set(d, a.significand[g]);
    const VI32 exponent = hn::Set(d, a.exponent[g]);
    const int end = std::min((g + 1) * kScaledGroup, a.length);
    for (int j = 0; j < columns; j += static_cast<int>(hn::MaxLanes(d))) {
      VI32 sum = hn::Zero(d);
      for (int k = g * kScaledGroup; k < end; ++k) {
        const VI32 value = hn::Load(d, b.values + k * kBlockColumns + j);
        sum = hn::Add(sum, hn::Mul(hn::Set(d, a.values[k]), value));
      }
      const int at = g * kBlockColumns + j;
      const VI32 scale = hn::Mul(significand, hn::Load(d, b.significand + at));
      hn::Store(hn::Mul(sum, scale), d, out.units + at);
      hn::Store(hn::Add(exponent, hn::Load(d, b.exponent + at)), d, out.exponent + at);
    }
  }
}

// units * 2^(exponent - largest + up), truncated.
HWY_INLINE VF64 align_group(VF64 units, VI64 exponent, VI64 largest, int up) {
  // Far below the smallest term, all is zero.
  const VI64 lowest = hn::Set(DI64(), -100);
  const VI64 shift = hn::Add(hn::Sub(exponent, largest), hn::Set(DI64(), up));
  return hn::Trunc(hn::Mul(units, power_of_two(hn::Max(shift, lowest))));
}

HWY_INLINE void fused_group_row(const DotAddModel& model, const GroupStep& a, const GroupColumns& b,
                                const RowStart& c, int columns, uint32_t* d) {
  const DF64 df;
  const DI64 di;
  const DI32Half half;
  GroupTerms terms;
  sum_groups(a, b, columns, terms);
  const int group_fraction_bits = 2 + 2 * scale_fraction_bits(model.scale);
  for (int j = 0; j < columns; j += static_cast<int>(hn::MaxLanes(df))) {
    const VI64 c_exponent = hn::PromoteTo(di, hn::Load(half, c.exponent + j));
    VI64 largest = c_exponent;
    for (int g = 0; g < a.groups(); ++g) {
      const int at = g * kBlockColumns + j;
      largest = hn::Max(largest, hn::PromoteTo(di, hn::Load(half, terms.exponent + at)));
    }
    const VI32Half sign = hn::Load(half, c.sign + j);
    const VI32Half significand = hn::Load(half, c.significand + j);
    const VF64 c_units = hn::PromoteTo(df, hn::Sub(hn::Xor(significand, sign), sign));
    VF64 sum = align_group(c_units, c_exponent, largest, model.fraction_bits - 23);
    for (int g = 0; g < a.groups(); ++g) {
      const int at = g * kBlockColumns + j;
      const VF64 units = hn::PromoteTo(df, hn::Load(half, terms.units + at));
      const VI64 exponent = hn::PromoteTo(di, hn::Load(half, terms.exponent + at));
      sum = hn::Add(
          sum, align_group(units, exponent, largest, model.fraction_bits - group_fraction_bits));
    }
    store_rounded(model, sum, hn::Sub(largest, hn::Set(di, model.fraction_bits)), d + j);
  }
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
