// f64 arithmetic in all rounding modes.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/float64.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sim/insn/float_handlers.h"
#include "sim/insn/lanes-inl.h"
#include "sim/numerics/min_max.h"
#include "sim/numerics/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

template <Rounding kMode>
constexpr ArithmeticOptions kOptions = {.rounding = kMode};

template <Rounding kMode>
struct Add {
  HWY_INLINE static double run(double a, double b) { return float_add<kOptions<kMode>>(a, b); }
};
template <Rounding kMode>
struct Sub {
  HWY_INLINE static double run(double a, double b) { return float_sub<kOptions<kMode>>(a, b); }
};
template <Rounding kMode>
struct Mul {
  HWY_INLINE static double run(double a, double b) { return float_mul<kOptions<kMode>>(a, b); }
};
template <Rounding kMode>
struct Fma {
  HWY_INLINE static double run(double a, double b, double c) {
    return float_fma<kOptions<kMode>>(a, b, c);
  }
};
template <Rounding kMode>
struct Div {
  HWY_INLINE static double run(double a, double b) { return div_rounded(a, b, kMode); }
};
template <Rounding kMode>
struct Rcp {
  HWY_INLINE static double run(double a) { return div_rounded(1.0, a, kMode); }
};
template <Rounding kMode>
struct Sqrt {
  HWY_INLINE static double run(double a) { return sqrt_rounded(a, kMode); }
};
struct Abs {
  HWY_INLINE static double run(double a) { return float_abs(a); }
};
struct Neg {
  HWY_INLINE static double run(double a) { return float_neg(a); }
};
struct Min {
  HWY_INLINE static double run(double a, double b) { return float_min(a, b); }
};
struct Max {
  HWY_INLINE static double run(double a, double b) { return float_max(a, b); }
};

template <Rounding kMode>
Handler rounded(FloatOp op) {
  switch (op) {
    case FloatOp::kAdd:
      return &binary<Add<kMode>, double>;
    case FloatOp::kSub:
      return &binary<Sub<kMode>, double>;
    case FloatOp::kMul:
      return &binary<Mul<kMode>, double>;
    case FloatOp::kFma:
      return &ternary<Fma<kMode>, double>;
    case FloatOp::kDiv:
      return &binary<Div<kMode>, double>;
    case FloatOp::kRcp:
      return &unary<Rcp<kMode>, double>;
    case FloatOp::kSqrt:
      return &unary<Sqrt<kMode>, double>;
    case FloatOp::kAbs:
      return &unary<Abs, double>;
    case FloatOp::kNeg:
      return &unary<Neg, double>;
    case FloatOp::kMin:
      return &binary<Min, double>;
    case FloatOp::kMax:
      return &binary<Max, double>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler float64(FloatOp op, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return rounded<Rounding::kZero>(op);
    case Rounding::kDown:
      return rounded<Rounding::kDown>(op);
    case Rounding::kUp:
      return rounded<Rounding::kUp>(op);
    default:
      return rounded<Rounding::kNearestEven>(op);
  }
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(float64);

Handler float64_handler(FloatOp op, Rounding rounding) {
  return HWY_DYNAMIC_DISPATCH(float64)(op, rounding);
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
