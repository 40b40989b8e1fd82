#include <cmath>

#include "sim/insn/arithmetic.h"
#include "sim/insn/families.h"
#include "sim/machine/warp.h"

namespace mpfa::sim {
namespace {
template <class T, FloatOp kOp>
Step run(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = i.b == kNoSlot ? a : w.source<T>(i.b);
  const T* c = i.c == kNoSlot ? a : w.source<T>(i.c);
  T* d = w.target<T>(i.dst);
  for (int l = 0; l < 32; ++l) {
    if ((w.mask >> l & 1) == 0) continue;
    switch (kOp) {
      case FloatOp::kAdd:
        d[l] = a[l] + b[l];
        break;
      case FloatOp::kSub:
        d[l] = a[l] - b[l];
        break;
      case FloatOp::kMul:
        d[l] = a[l] * b[l];
        break;
      case FloatOp::kFma:
        d[l] = std::fma(a[l], b[l], c[l]);
        break;
      case FloatOp::kDiv:
        d[l] = a[l] / b[l];
        break;
      case FloatOp::kAbs:
        d[l] = std::fabs(a[l]);
        break;
      case FloatOp::kNeg:
        d[l] = -a[l];
        break;
      case FloatOp::kMin:
        d[l] = std::fmin(a[l], b[l]);
        break;
      case FloatOp::kMax:
        d[l] = std::fmax(a[l], b[l]);
        break;
    }
  }
  return Step::kNext;
}
template <class T>
Handler of(FloatOp op) {
  switch (op) {
    case FloatOp::kAdd:
      return &run<T, FloatOp::kAdd>;
    case FloatOp::kSub:
      return &run<T, FloatOp::kSub>;
    case FloatOp::kMul:
      return &run<T, FloatOp::kMul>;
    case FloatOp::kFma:
      return &run<T, FloatOp::kFma>;
    case FloatOp::kDiv:
      return &run<T, FloatOp::kDiv>;
    case FloatOp::kAbs:
      return &run<T, FloatOp::kAbs>;
    case FloatOp::kNeg:
      return &run<T, FloatOp::kNeg>;
    case FloatOp::kMin:
      return &run<T, FloatOp::kMin>;
    case FloatOp::kMax:
      return &run<T, FloatOp::kMax>;
  }
  return nullptr;
}
}  // namespace

void decode_float(InsnDecoder& d, FloatOp op, ScalarType type) {
  d.take("rn");
  d.expect_no_more();
  if (type != ScalarType::kF32 && type != ScalarType::kF64) d.fail("not yet");
  const Slot a = d.source(1, type);
  const Slot b = d.count() > 2 ? d.source(2, type) : kNoSlot;
  const Slot c = d.count() > 3 ? d.source(3, type) : kNoSlot;
  const Slot to = d.target(0, type);
  Insn& insn = d.emit(type == ScalarType::kF32 ? of<float>(op) : of<double>(op));
  insn.dst = to;
  insn.a = a;
  insn.b = b;
  insn.c = c;
}

Slot emit_float_negation(InsnDecoder& d, Slot slot, ScalarType type) {
  const Slot to = d.scratch(bits_of(type));
  Insn& insn = d.emit_before(type == ScalarType::kF32 ? of<float>(FloatOp::kNeg)
                                                      : of<double>(FloatOp::kNeg));
  insn.dst = to;
  insn.a = slot;
  return to;
}
}  // namespace mpfa::sim
