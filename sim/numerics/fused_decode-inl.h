// Operands of fused dot-adds, taken apart: significand, sign and exponent of every element.
// Per-target include guard.
#if defined(MPFA_SIM_NUMERICS_FUSED_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_SIM_NUMERICS_FUSED_DECODE_INL_H_
#undef MPFA_SIM_NUMERICS_FUSED_DECODE_INL_H_
#else
#define MPFA_SIM_NUMERICS_FUSED_DECODE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sim/numerics/fused_plan.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {

// Columns of D that are worked on together: whole vectors on every target.
inline constexpr int kBlockColumns = 64;
// The longest step: 64 of e2m1.
inline constexpr int kMaxStep = 64;

// How an operand's codes are read.
struct Reader {
  ElementType type;        // of the codes
  const CodeTable* table;  // or none
  FloatFormat format;      // of what the table gives
  int container;           // bytes
  const void* elements;
  int64_t stride;
};

HWY_INLINE Reader make_reader(const FusedPlan& plan, ElementType type, const void* elements,
                              int64_t stride) {
  Reader reader{type, nullptr, format_of(type), container_bytes(type), elements, stride};
  if (plan.as_f16) {
    reader.table = type == ElementType::kE4m3 ? &kF16OfE4m3 : &kF16OfE5m2;
    reader.format = kF16;
  }
  return reader;
}

// codes[i * step] of the elements at order[i] of a row.
template <class T>
HWY_INLINE void read_codes(const Reader& reader, int64_t row, const int* order, int count,
                           uint32_t* HWY_RESTRICT codes, int step) {
  const T* elements = static_cast<const T*>(reader.elements) + row * reader.stride;
  const int low = unused_low_bits(reader.type);
  if (reader.table != nullptr) {
    for (int i = 0; i < count; ++i) codes[i * step] = (*reader.table)[elements[order[i]] & 0xFF];
  } else {
    for (int i = 0; i < count; ++i) codes[i * step] = uint32_t{elements[order[i]]} >> low;
  }
}

HWY_INLINE void read_codes(const Reader& reader, int64_t row, const int* order, int count,
                           uint32_t* HWY_RESTRICT codes, int step) {
  switch (reader.container) {
    case 1:
      return read_codes<uint8_t>(reader, row, order, count, codes, step);
    case 2:
      return read_codes<uint16_t>(reader, row, order, count, codes, step);
    default:
      return read_codes<uint32_t>(reader, row, order, count, codes, step);
  }
}

// What codes mean; all bits of `special` are set where one is an infinity or NaN, else left alone.
// `sign` is -1 or 0.
HWY_INLINE void decode_codes(const FloatFormat& format, const uint32_t* HWY_RESTRICT codes,
                             int count, int32_t* HWY_RESTRICT significand,
                             int32_t* HWY_RESTRICT sign, int32_t* HWY_RESTRICT exponent,
                             int32_t* HWY_RESTRICT special) {
  const int mantissa_bits = format.mantissa_bits;
  const int sign_shift = format.sign_shift();
  const int bias = format.bias;
  const int32_t hidden = 1 << mantissa_bits;
  const int32_t mask = static_cast<int32_t>((uint32_t{1} << sign_shift) - 1);
  const auto max_finite = static_cast<int32_t>(format.max_finite);
  for (int i = 0; i < count; ++i) {
    const auto code = static_cast<int32_t>(codes[i]);
    const int32_t magnitude = code & mask;
    const int32_t field = magnitude >> mantissa_bits;
    significand[i] = (magnitude & (hidden - 1)) | (field != 0 ? hidden : 0);
    sign[i] = -((code >> sign_shift) & 1);
    const int32_t of_value = (field > 1 ? field : 1) - bias;
    exponent[i] = magnitude == 0 ? kExponentOfZero : of_value;
    special[i] |= magnitude > max_finite ? -1 : 0;
  }
}

// A, row by row in the plan's order, with what products have in common moved here: the negation,
// and the shift to the fraction bits of terms.
struct RowOperands {
  std::vector<int32_t> significand;  // [m][k]
  std::vector<int32_t> sign;
  std::vector<int32_t> exponent;
  std::vector<uint8_t> special;  // [m]: has an infinity or NaN
  std::vector<uint32_t> codes;
  std::vector<int32_t> specials;  // of each element

  void resize(int elements, int count) {
    for (auto* part : {&significand, &sign, &exponent}) part->resize(elements);
    codes.resize(elements);
    specials.assign(elements, 0);
    special.resize(count);
  }
};

HWY_INLINE void add_row_scales(const FusedPlan& plan, int64_t row, int32_t* exponent,
                               uint8_t& special) {
  const uint8_t* scales = plan.operands.a_scales + row * plan.operands.a_scale_stride;
  for (int k = 0; k < plan.op.k; ++k) {
    const DecodedFloat scale =
        decode_scale(plan.op.model.scale, scales[k / plan.op.model.scale_block]);
    exponent[k] += scale.exponent;
    if (scale.kind != DecodedFloat::Kind::kFinite) special = 1;
  }
}

HWY_INLINE void decode_rows(const FusedPlan& plan, RowOperands& rows) {
  const MatrixMultiply& op = plan.op;
  const Reader reader = make_reader(plan, op.model.a, plan.operands.a, plan.operands.a_stride);
  const int64_t k = op.k;
  const auto size = static_cast<int>(op.m * k);
  rows.resize(size, op.m);
  for (int64_t i = 0; i < op.m; ++i) {
    read_codes(reader, i, plan.order.data(), op.k, rows.codes.data() + i * k, 1);
  }
  decode_codes(reader.format, rows.codes.data(), size, rows.significand.data(), rows.sign.data(),
               rows.exponent.data(), rows.specials.data());

  const int product_bits = reader.format.mantissa_bits + format_of(plan.b_type()).mantissa_bits;
  const int up = op.model.fraction_bits - product_bits;
  const int32_t flip = op.negate_a != op.negate_b ? -1 : 0;
  for (int32_t& significand : rows.significand) significand <<= up;
  for (int32_t& sign : rows.sign) sign ^= flip;
  for (int64_t i = 0; i < op.m; ++i) {
    int32_t any = 0;
    for (int64_t e = 0; e < k; ++e) any |= rows.specials[i * k + e];
    rows.special[i] = any != 0 ? 1 : 0;
    if (op.model.scale != ScaleType::kNone) {
      add_row_scales(plan, i, rows.exponent.data() + i * k, rows.special[i]);
    }
  }
}

// One step of a block of columns of B: [k][column].
struct ColumnOperands {
  alignas(64) uint32_t codes[kMaxStep * kBlockColumns];
  alignas(64) int32_t significand[kMaxStep * kBlockColumns];
  alignas(64) int32_t sign[kMaxStep * kBlockColumns];
  alignas(64) int32_t exponent[kMaxStep * kBlockColumns];
  alignas(64) int32_t special[kBlockColumns];  // not 0: has had an infinity or NaN in any step
};

HWY_INLINE void read_columns(const Reader& reader, const int* order, int length, int first,
                             int columns, ColumnOperands& out) {
  if (columns < padded_columns(columns)) {
    std::memset(out.codes, 0, sizeof(uint32_t) * kBlockColumns * length);
  }
  for (int j = 0; j < columns; ++j) {
    read_codes(reader, first + j, order, length, out.codes + j, kBlockColumns);
  }
}

HWY_INLINE void decode_columns(const FusedPlan& plan, const FusedStep& step, int first, int columns,
                               ColumnOperands& out) {
  const DotAddModel& model = plan.op.model;
  const Reader reader = make_reader(plan, model.b, plan.operands.b, plan.operands.b_stride);
  const int length = step.end - step.begin;
  read_columns(reader, plan.order.data() + step.begin, length, first, columns, out);
  for (int k = 0; k < length; ++k) {
    const int at = k * kBlockColumns;
    decode_codes(reader.format, out.codes + at, padded_columns(columns), out.significand + at,
                 out.sign + at, out.exponent + at, out.special);
  }
  if (model.scale == ScaleType::kNone) return;
  for (int j = 0; j < columns; ++j) {
    const uint8_t* scales = plan.operands.b_scales + (first + j) * plan.operands.b_scale_stride;
    for (int k = 0; k < length; ++k) {
      const DecodedFloat scale =
          decode_scale(model.scale, scales[(step.begin + k) / model.scale_block]);
      out.exponent[k * kBlockColumns + j] += scale.exponent;
      if (scale.kind != DecodedFloat::Kind::kFinite) out.special[j] = -1;
    }
  }
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
