// Floating-point instructions: modifiers to handlers.
#include <array>
#include <string>

#include "sim/insn/arithmetic.h"
#include "sim/insn/families.h"
#include "sim/insn/float_handlers.h"
#include "sim/machine/warp.h"
#include "sim/numerics/approximate.h"

namespace mpfa::sim {
namespace {

FloatModifiers take_modifiers(InsnDecoder& d) {
  FloatModifiers m;
  switch (d.take_one({"rn", "rz", "rm", "rp"})) {
    case 1:
      m.rounding = Rounding::kZero;
      break;
    case 2:
      m.rounding = Rounding::kDown;
      break;
    case 3:
      m.rounding = Rounding::kUp;
      break;
    default:
      break;
  }
  m.ftz = d.take("ftz");
  m.sat = d.take("sat");
  m.oob = d.take("oob");
  m.relu = d.take("relu");
  m.propagate_nan = d.take("NaN");
  m.xorsign = d.take("xorsign");
  m.abs = d.take("abs");
  return m;
}

Handler handler_of(FloatOp op, ScalarType type, const FloatModifiers& m) {
  switch (type) {
    case ScalarType::kF32:
      return m.rounding == Rounding::kNearestEven ? float32_handler(op, m)
                                                  : float32_directed_handler(op, m);
    case ScalarType::kF64:
      return float64_handler(op, m.rounding);
    case ScalarType::kF32x2:
      return float32x2_handler(op, m);
    default:
      return half_handler(op, type, m);
  }
}

// d = op(a [, b [, c]]).
void emit_float(InsnDecoder& d, Handler handler, ScalarType type) {
  if (handler == nullptr) {
    d.fail("." + std::string(name_of(type)) + " does not go with the other modifiers");
  }
  const Slot a = d.source(1, type);
  const Slot b = d.count() > 2 ? d.source(2, type) : kNoSlot;
  const Slot c = d.count() > 3 ? d.source(3, type) : kNoSlot;
  const Slot to = d.target(0, type);
  Insn& insn = d.emit(handler);
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
}

// fma.rn.f32.f16: an f16 or bf16 operand among f32 ones (sm_100) is not decoded here.
void decode_function(InsnDecoder& d, FloatFunction function) {
  const ScalarType type = d.expect_type();
  d.take("approx");
  const bool ftz = d.take("ftz");
  d.expect_no_more();
  emit_float(d, approximate_handler(function, type, ftz), type);
}

template <double (*kFunction)(double)>
Step of_doubles(Warp& w, const Insn& i) {
  const double* a = w.source<double>(i.a);
  double* to = w.target<double>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) != 0) to[lane] = kFunction(a[lane]);
  }
  return Step::kNext;
}

// rcp and sqrt: .approx, or a rounding mode.
void decode_rcp_or_sqrt(InsnDecoder& d, FloatFunction function, FloatOp op) {
  const ScalarType type = d.expect_type();
  const bool approximate = d.take("approx");
  const FloatModifiers m = take_modifiers(d);
  d.expect_no_more();
  if (!approximate) return emit_float(d, handler_of(op, type, m), type);
  if (type == ScalarType::kF64) {
    return emit_float(d, function == FloatFunction::kRcp ? &of_doubles<&rcp_approx_ftz> : nullptr,
                      type);
  }
  emit_float(d, approximate_handler(function, type, m.ftz), type);
}

}  // namespace

void decode_float(InsnDecoder& d, FloatOp op, ScalarType type) {
  if (op == FloatOp::kDiv) {
    const int kind = d.take_one({"approx", "full"});
    if (kind >= 0) {
      const bool ftz = d.take("ftz");
      d.expect_no_more();
      return emit_float(d, approximate_division_handler(kind == 1, ftz), type);
    }
  }
  const FloatModifiers m = take_modifiers(d);
  d.expect_no_more();
  if (m.oob && (op != FloatOp::kFma || bits_of(type) == 64 || type == ScalarType::kF32)) {
    d.fail(".oob is for fma of .f16, .f16x2, .bf16 and .bf16x2");
  }
  const bool of_three = d.count() == 4;
  if (of_three && op == FloatOp::kMin) op = FloatOp::kMin3;
  if (of_three && op == FloatOp::kMax) op = FloatOp::kMax3;
  emit_float(d, handler_of(op, type, m), type);
}

void decode_rcp(InsnDecoder& d) { decode_rcp_or_sqrt(d, FloatFunction::kRcp, FloatOp::kRcp); }
void decode_sqrt(InsnDecoder& d) { decode_rcp_or_sqrt(d, FloatFunction::kSqrt, FloatOp::kSqrt); }

void decode_rsqrt(InsnDecoder& d) {
  const ScalarType type = d.expect_type();
  d.take("approx");
  const bool ftz = d.take("ftz");
  d.expect_no_more();
  if (type == ScalarType::kF64) {
    using OfDouble = double (*)(double);
    constexpr OfDouble kPlain = &rsqrt_approx;
    return emit_float(d, ftz ? &of_doubles<&rsqrt_approx_ftz> : &of_doubles<kPlain>, type);
  }
  emit_float(d, approximate_handler(FloatFunction::kRsqrt, type, ftz), type);
}

void decode_sin(InsnDecoder& d) { decode_function(d, FloatFunction::kSin); }
void decode_cos(InsnDecoder& d) { decode_function(d, FloatFunction::kCos); }
void decode_lg2(InsnDecoder& d) { decode_function(d, FloatFunction::kLg2); }
void decode_ex2(InsnDecoder& d) { decode_function(d, FloatFunction::kEx2); }
void decode_tanh(InsnDecoder& d) { decode_function(d, FloatFunction::kTanh); }

Slot emit_float_negation(InsnDecoder& d, Slot slot, ScalarType type) {
  const Slot to = d.scratch(bits_of(type));
  Insn& insn = d.emit_before(handler_of(FloatOp::kNeg, type, {}));
  insn.dst = to;
  insn.a = slot;
  return to;
}

}  // namespace mpfa::sim
