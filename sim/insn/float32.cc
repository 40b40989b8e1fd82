// f32 arithmetic rounded to nearest even, minima and maxima.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/float32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "sim/insn/float_handlers.h"
#include "sim/insn/lanes-inl.h"
#include "sim/numerics/min_max.h"
#include "sim/numerics/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

template <ArithmeticOptions kOptions>
struct Add {
  HWY_INLINE static float run(float a, float b) { return float_add<kOptions>(a, b); }
};
template <ArithmeticOptions kOptions>
struct Sub {
  HWY_INLINE static float run(float a, float b) { return float_sub<kOptions>(a, b); }
};
template <ArithmeticOptions kOptions>
struct Mul {
  HWY_INLINE static float run(float a, float b) { return float_mul<kOptions>(a, b); }
};
template <ArithmeticOptions kOptions>
struct Fma {
  HWY_INLINE static float run(float a, float b, float c) { return float_fma<kOptions>(a, b, c); }
};
template <ArithmeticOptions kOptions>
struct Div {
  HWY_INLINE static float run(float a, float b) { return float_div<kOptions>(a, b); }
};
template <ArithmeticOptions kOptions>
struct Rcp {
  HWY_INLINE static float run(float a) { return float_rcp<kOptions>(a); }
};
template <ArithmeticOptions kOptions>
struct Sqrt {
  HWY_INLINE static float run(float a) { return float_sqrt<kOptions>(a); }
};
template <bool kFtz>
struct Abs {
  HWY_INLINE static float run(float a) { return float_abs<kFtz>(a); }
};
template <bool kFtz>
struct Neg {
  HWY_INLINE static float run(float a) { return float_neg<kFtz>(a); }
};
template <bool kMaximum, MinMaxOptions kOptions>
struct Extreme {
  HWY_INLINE static float run(float a, float b) {
    return min_or_max_of_two<kMaximum, kOptions>(a, b);
  }
};
template <bool kMaximum, MinMaxOptions kOptions>
struct Extreme3 {
  HWY_INLINE static float run(float a, float b, float c) {
    return min_or_max_of_three<kMaximum, kOptions>(a, b, c);
  }
};

constexpr ArithmeticOptions options(bool ftz, bool sat) { return {.ftz = ftz, .sat = sat}; }

template <template <ArithmeticOptions> class Op>
Handler unary_of(bool ftz) {
  return ftz ? &unary<Op<options(true, false)>, float> : &unary<Op<options(false, false)>, float>;
}

template <template <ArithmeticOptions> class Op>
Handler binary_of(bool ftz, bool sat) {
  if (ftz) {
    return sat ? &binary<Op<options(true, true)>, float> : &binary<Op<options(true, false)>, float>;
  }
  return sat ? &binary<Op<options(false, true)>, float> : &binary<Op<options(false, false)>, float>;
}

Handler fma_of(bool ftz, bool sat) {
  if (ftz) {
    return sat ? &ternary<Fma<options(true, true)>, float>
               : &ternary<Fma<options(true, false)>, float>;
  }
  return sat ? &ternary<Fma<options(false, true)>, float>
             : &ternary<Fma<options(false, false)>, float>;
}

template <bool kMaximum, bool kFtz>
Handler extreme_of(const FloatModifiers& m) {
  if (m.xorsign) {
    return m.propagate_nan
               ? &binary<Extreme<kMaximum, MinMaxOptions{kFtz, true, true, true}>, float>
               : &binary<Extreme<kMaximum, MinMaxOptions{kFtz, false, true, true}>, float>;
  }
  return m.propagate_nan
             ? &binary<Extreme<kMaximum, MinMaxOptions{kFtz, true, false, false}>, float>
             : &binary<Extreme<kMaximum, MinMaxOptions{kFtz, false, false, false}>, float>;
}

template <bool kMaximum, bool kFtz>
Handler extreme3_of(const FloatModifiers& m) {
  if (m.abs) {
    return m.propagate_nan
               ? &ternary<Extreme3<kMaximum, MinMaxOptions{kFtz, true, true, false}>, float>
               : &ternary<Extreme3<kMaximum, MinMaxOptions{kFtz, false, true, false}>, float>;
  }
  return m.propagate_nan
             ? &ternary<Extreme3<kMaximum, MinMaxOptions{kFtz, true, false, false}>, float>
             : &ternary<Extreme3<kMaximum, MinMaxOptions{kFtz, false, false, false}>, float>;
}

template <bool kMaximum>
Handler any_extreme_of(bool of_three, const FloatModifiers& m) {
  if (of_three) return m.ftz ? extreme3_of<kMaximum, true>(m) : extreme3_of<kMaximum, false>(m);
  return m.ftz ? extreme_of<kMaximum, true>(m) : extreme_of<kMaximum, false>(m);
}

}  // namespace

Handler float32(FloatOp op, const FloatModifiers& m) {
  switch (op) {
    case FloatOp::kAdd:
      return binary_of<Add>(m.ftz, m.sat);
    case FloatOp::kSub:
      return binary_of<Sub>(m.ftz, m.sat);
    case FloatOp::kMul:
      return binary_of<Mul>(m.ftz, m.sat);
    case FloatOp::kFma:
      return fma_of(m.ftz, m.sat);
    case FloatOp::kDiv:
      return binary_of<Div>(m.ftz, false);
    case FloatOp::kRcp:
      return unary_of<Rcp>(m.ftz);
    case FloatOp::kSqrt:
      return unary_of<Sqrt>(m.ftz);
    case FloatOp::kAbs:
      return m.ftz ? &unary<Abs<true>, float> : &unary<Abs<false>, float>;
    case FloatOp::kNeg:
      return m.ftz ? &unary<Neg<true>, float> : &unary<Neg<false>, float>;
    case FloatOp::kMin:
    case FloatOp::kMin3:
      return any_extreme_of<false>(op == FloatOp::kMin3, m);
    case FloatOp::kMax:
    case FloatOp::kMax3:
      return any_extreme_of<true>(op == FloatOp::kMax3, m);
  }
  return nullptr;
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(float32);

Handler float32_handler(FloatOp op, const FloatModifiers& modifiers) {
  return HWY_DYNAMIC_DISPATCH(float32)(op, modifiers);
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
