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

enum class Roundings : uint8_t { kNone, kNearest, kAll };

// The modifiers that an operation has for a type (PTX ISA, "Floating Point Instructions" and "Half
// Precision Floating Point Instructions").
struct Allowed {
  Roundings rounding = Roundings::kNone;
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool oob = false;
  bool nan = false;
  bool xorsign = false;  // with .abs
  bool abs = false;      // without .xorsign
};

bool is_f16(ScalarType type) { return type == ScalarType::kF16 || type == ScalarType::kF16x2; }
bool is_bf16(ScalarType type) { return type == ScalarType::kBf16 || type == ScalarType::kBf16x2; }

Allowed allowed_for(FloatOp op, ScalarType type) {
  const bool is_half = is_f16(type) || is_bf16(type);
  const bool is_f32 = type == ScalarType::kF32;
  const Roundings all = is_half ? Roundings::kNearest : Roundings::kAll;
  const bool flushes = is_f32 || is_f16(type);
  switch (op) {
    case FloatOp::kAdd:
    case FloatOp::kSub:
    case FloatOp::kMul:
      return {.rounding = all, .ftz = flushes || type == ScalarType::kF32x2, .sat = flushes};
    case FloatOp::kFma:
      return {.rounding = all,
              .ftz = flushes || type == ScalarType::kF32x2,
              .sat = flushes,
              .relu = is_half,
              .oob = is_half};
    case FloatOp::kRcp:
      // The ISA has no .ftz of .f64; ptxas takes it and makes the same of it as without.
      return {.rounding = all, .ftz = is_f32 || type == ScalarType::kF64};
    case FloatOp::kDiv:
    case FloatOp::kSqrt:
      return {.rounding = all, .ftz = is_f32};
    case FloatOp::kAbs:
    case FloatOp::kNeg:
      return {.ftz = flushes};
    case FloatOp::kMin:
    case FloatOp::kMax:
      return {.ftz = flushes, .nan = is_f32 || is_half, .xorsign = is_f32 || is_half};
    case FloatOp::kMin3:
    case FloatOp::kMax3:
      return {.ftz = is_f32, .nan = is_f32, .abs = is_f32};
  }
  return {};
}

Rounding take_rounding(InsnDecoder& d, Roundings allowed) {
  if (allowed == Roundings::kNone || d.take("rn")) return Rounding::kNearestEven;
  if (allowed == Roundings::kNearest) return Rounding::kNearestEven;
  switch (d.take_one({"rz", "rm", "rp"})) {
    case 0:
      return Rounding::kZero;
    case 1:
      return Rounding::kDown;
    case 2:
      return Rounding::kUp;
    default:
      return Rounding::kNearestEven;
  }
}

FloatModifiers take_modifiers(InsnDecoder& d, FloatOp op, ScalarType type) {
  const Allowed allowed = allowed_for(op, type);
  FloatModifiers m;
  m.rounding = take_rounding(d, allowed.rounding);
  m.ftz = allowed.ftz && d.take("ftz");
  m.sat = allowed.sat && d.take("sat");
  m.oob = allowed.oob && d.take("oob");
  m.relu = allowed.relu && d.take("relu");
  m.propagate_nan = allowed.nan && d.take("NaN");
  m.xorsign = allowed.xorsign && d.take("xorsign");
  m.abs = (allowed.abs || m.xorsign) && d.take("abs");
  d.expect_no_more();
  if (m.xorsign && !m.abs) d.fail(".xorsign goes with .abs");
  if (m.sat && m.relu) d.fail(".sat does not go with .relu");
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

size_t operands_of(FloatOp op) {
  switch (op) {
    case FloatOp::kAbs:
    case FloatOp::kNeg:
    case FloatOp::kRcp:
    case FloatOp::kSqrt:
      return 1;
    case FloatOp::kFma:
    case FloatOp::kMin3:
    case FloatOp::kMax3:
      return 3;
    default:
      return 2;
  }
}

// d = op(a [, b [, c]]).
void emit_float(InsnDecoder& d, Handler handler, ScalarType type, size_t operands) {
  if (handler == nullptr) {
    d.fail("." + std::string(name_of(type)) + " does not go with the other modifiers");
  }
  if (d.count() != operands + 1) {
    d.fail("there are " + std::to_string(d.count()) + " operands; it takes " +
           std::to_string(operands + 1));
  }
  const Slot a = d.source(1, type);
  const Slot b = operands > 1 ? d.source(2, type) : kNoSlot;
  const Slot c = operands > 2 ? d.source(3, type) : kNoSlot;
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
  // PTX ISA, "ex2": of .bf16 it flushes and says so, of .f16 it does not; "tanh" never does.
  const bool may_flush = function != FloatFunction::kTanh && !is_f16(type);
  const bool ftz = may_flush && d.take("ftz");
  d.expect_no_more();
  if (function == FloatFunction::kEx2 && is_bf16(type) && !ftz) d.fail(".ftz is missing");
  emit_float(d, approximate_handler(function, type, ftz), type, 1);
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
  if (!d.take("approx")) {
    return emit_float(d, handler_of(op, type, take_modifiers(d, op, type)), type, 1);
  }
  const bool ftz = d.take("ftz");
  d.expect_no_more();
  if (type != ScalarType::kF64) {
    return emit_float(d, approximate_handler(function, type, ftz), type, 1);
  }
  const bool is_known = function == FloatFunction::kRcp && ftz;
  emit_float(d, is_known ? &of_doubles<&rcp_approx_ftz> : nullptr, type, 1);
}

}  // namespace

void decode_float(InsnDecoder& d, FloatOp op, ScalarType type) {
  if (op == FloatOp::kDiv) {
    const int kind = d.take_one({"approx", "full"});
    if (kind >= 0) {
      const bool ftz = d.take("ftz");
      d.expect_no_more();
      if (type != ScalarType::kF32) d.fail("approximate divisions are of .f32");
      return emit_float(d, approximate_division_handler(kind == 1, ftz), type, 2);
    }
  }
  const bool of_three = d.count() == 4;
  if (of_three && op == FloatOp::kMin) op = FloatOp::kMin3;
  if (of_three && op == FloatOp::kMax) op = FloatOp::kMax3;
  emit_float(d, handler_of(op, type, take_modifiers(d, op, type)), type, operands_of(op));
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
    return emit_float(d, ftz ? &of_doubles<&rsqrt_approx_ftz> : &of_doubles<kPlain>, type, 1);
  }
  emit_float(d, approximate_handler(FloatFunction::kRsqrt, type, ftz), type, 1);
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
