// f32 arithmetic in .rz, .rm and .rp, and f32x2: rarer, so compiled for the baseline alone.
#include <cstdint>
#include <cstring>

#include "sim/insn/float_handlers.h"
#include "sim/machine/warp.h"
#include "sim/numerics/rounding.h"

namespace mpfa::sim {
namespace {

template <FloatOp kOp, ArithmeticOptions kOptions>
float compute(float a, float b, float c) {
  switch (kOp) {
    case FloatOp::kAdd:
      return float_add<kOptions>(a, b);
    case FloatOp::kSub:
      return float_sub<kOptions>(a, b);
    case FloatOp::kMul:
      return float_mul<kOptions>(a, b);
    case FloatOp::kFma:
      return float_fma<kOptions>(a, b, c);
    case FloatOp::kDiv:
      return float_div<kOptions>(a, b);
    case FloatOp::kRcp:
      return float_rcp<kOptions>(a);
    default:
      return float_sqrt<kOptions>(a);
  }
}

// kParts floats a lane: 1, or 2 of f32x2.
template <FloatOp kOp, ArithmeticOptions kOptions, int kParts>
Step run(Warp& w, const Insn& i) {
  const float* a = w.source<float>(i.a);
  const float* b = i.b == kNoSlot ? a : w.source<float>(i.b);
  const float* c = i.c == kNoSlot ? a : w.source<float>(i.c);
  float* to = w.target<float>(i.dst);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    for (int part = lane * kParts; part < (lane + 1) * kParts; ++part) {
      to[part] = compute<kOp, kOptions>(a[part], b[part], c[part]);
    }
  }
  return Step::kNext;
}

template <FloatOp kOp, Rounding kMode, int kParts>
Handler with_modifiers(const FloatModifiers& m) {
  if (m.ftz) {
    return m.sat ? &run<kOp, ArithmeticOptions{kMode, true, true, false}, kParts>
                 : &run<kOp, ArithmeticOptions{kMode, true, false, false}, kParts>;
  }
  return m.sat ? &run<kOp, ArithmeticOptions{kMode, false, true, false}, kParts>
               : &run<kOp, ArithmeticOptions{kMode, false, false, false}, kParts>;
}

template <FloatOp kOp, int kParts>
Handler with_rounding(const FloatModifiers& m) {
  switch (m.rounding) {
    case Rounding::kZero:
      return with_modifiers<kOp, Rounding::kZero, kParts>(m);
    case Rounding::kDown:
      return with_modifiers<kOp, Rounding::kDown, kParts>(m);
    case Rounding::kUp:
      return with_modifiers<kOp, Rounding::kUp, kParts>(m);
    default:
      return with_modifiers<kOp, Rounding::kNearestEven, kParts>(m);
  }
}

}  // namespace

Handler float32_directed_handler(FloatOp op, const FloatModifiers& m) {
  switch (op) {
    case FloatOp::kAdd:
      return with_rounding<FloatOp::kAdd, 1>(m);
    case FloatOp::kSub:
      return with_rounding<FloatOp::kSub, 1>(m);
    case FloatOp::kMul:
      return with_rounding<FloatOp::kMul, 1>(m);
    case FloatOp::kFma:
      return with_rounding<FloatOp::kFma, 1>(m);
    case FloatOp::kDiv:
      return with_rounding<FloatOp::kDiv, 1>(m);
    case FloatOp::kRcp:
      return with_rounding<FloatOp::kRcp, 1>(m);
    case FloatOp::kSqrt:
      return with_rounding<FloatOp::kSqrt, 1>(m);
    default:
      return nullptr;
  }
}

Handler float32x2_handler(FloatOp op, const FloatModifiers& m) {
  switch (op) {
    case FloatOp::kAdd:
      return with_rounding<FloatOp::kAdd, 2>(m);
    case FloatOp::kSub:
      return with_rounding<FloatOp::kSub, 2>(m);
    case FloatOp::kMul:
      return with_rounding<FloatOp::kMul, 2>(m);
    case FloatOp::kFma:
      return with_rounding<FloatOp::kFma, 2>(m);
    default:
      return nullptr;
  }
}

}  // namespace mpfa::sim
