#include "sim/insn/arithmetic.h"

#include "sim/insn/families.h"

namespace mpfa::sim {
namespace {

void decode_either(InsnDecoder& d, IntegerOp integer, FloatOp floating, size_t operands) {
  const ScalarType type = d.expect_type();
  if (is_float(type)) return decode_float(d, floating, type);
  decode_integer(d, integer, type, operands);
}

void decode_extreme(InsnDecoder& d, bool is_max) {
  const ScalarType type = d.expect_type();
  if (is_float(type)) return decode_float(d, is_max ? FloatOp::kMax : FloatOp::kMin, type);
  if (d.take("relu")) {
    return decode_integer(d, is_max ? IntegerOp::kMaxRelu : IntegerOp::kMinRelu, type, 2);
  }
  decode_integer(d, is_max ? IntegerOp::kMax : IntegerOp::kMin, type, 2);
}

}  // namespace

void decode_add(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (is_float(type)) return decode_float(d, FloatOp::kAdd, type);
  decode_integer_add(d, type, false);
}

void decode_sub(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (is_float(type)) return decode_float(d, FloatOp::kSub, type);
  decode_integer_add(d, type, true);
}

void decode_mul(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (is_float(type)) return decode_float(d, FloatOp::kMul, type);
  decode_integer_mul(d, type);
}

void decode_mad(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  if (is_float(type)) return decode_float(d, FloatOp::kFma, type);
  decode_integer_mad(d, type, false);
}

void decode_fma(InsnDecoder& d) { decode_float(d, FloatOp::kFma, d.expect_type()); }

void decode_div(InsnDecoder& d) { decode_either(d, IntegerOp::kDiv, FloatOp::kDiv, 2); }
void decode_abs(InsnDecoder& d) { decode_either(d, IntegerOp::kAbs, FloatOp::kAbs, 1); }
void decode_neg(InsnDecoder& d) { decode_either(d, IntegerOp::kNeg, FloatOp::kNeg, 1); }
void decode_min(InsnDecoder& d) { decode_extreme(d, false); }
void decode_max(InsnDecoder& d) { decode_extreme(d, true); }

Slot emit_negation(InsnDecoder& d, Slot slot, ScalarType type) {
  return is_float(type) ? emit_float_negation(d, slot, type) : emit_integer_negation(d, slot, type);
}

}  // namespace mpfa::sim
