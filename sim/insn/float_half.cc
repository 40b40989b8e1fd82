// f16 and bf16, one or two in a register.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/float_half.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "sim/insn/float_handlers.h"
#include "sim/insn/lanes-inl.h"
#include "sim/numerics/half.h"
#include "sim/numerics/min_max.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

template <FloatOp kOp, ArithmeticOptions kOptions, class H>
HWY_INLINE H compute(H a, H b, H c) {
  switch (kOp) {
    case FloatOp::kAdd:
      return half_add<kOptions>(a, b);
    case FloatOp::kSub:
      return half_sub<kOptions>(a, b);
    case FloatOp::kMul:
      return half_mul<kOptions>(a, b);
    case FloatOp::kFma:
      return half_fma<kOptions>(a, b, c);
    case FloatOp::kAbs:
      return float_abs<kOptions.ftz>(a);
    default:
      return float_neg<kOptions.ftz>(a);
  }
}

template <FloatOp kOp, MinMaxOptions kOptions, class H>
HWY_INLINE H extreme(H a, H b, H c) {
  switch (kOp) {
    case FloatOp::kMin:
      return float_min<kOptions>(a, b);
    case FloatOp::kMax:
      return float_max<kOptions>(a, b);
    case FloatOp::kMin3:
      return float_min<kOptions>(a, b, c);
    default:
      return float_max<kOptions>(a, b, c);
  }
}

template <FloatOp kOp, ArithmeticOptions kOptions, class H>
struct Arithmetic {
  HWY_INLINE static uint16_t run(uint16_t a, uint16_t b, uint16_t c) {
    return compute<kOp, kOptions>(H{a}, H{b}, H{c}).bits;
  }
};
template <FloatOp kOp, MinMaxOptions kOptions, class H>
struct Extreme {
  HWY_INLINE static uint16_t run(uint16_t a, uint16_t b, uint16_t c) {
    return extreme<kOp, kOptions>(H{a}, H{b}, H{c}).bits;
  }
};

// Both halves of a register.
template <class Op>
struct Pair {
  HWY_INLINE static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t low =
        Op::run(static_cast<uint16_t>(a), static_cast<uint16_t>(b), static_cast<uint16_t>(c));
    const uint32_t high = Op::run(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16),
                                  static_cast<uint16_t>(c >> 16));
    return high << 16 | low;
  }
};

// Operands that the operation lacks are read as a's again.
template <class Op, class T>
Step run(Warp& w, const Insn& i) {
  const T* a = w.source<T>(i.a);
  const T* b = i.b == kNoSlot ? a : w.source<T>(i.b);
  const T* c = i.c == kNoSlot ? a : w.source<T>(i.c);
  store_lanes(w.target<T>(i.dst), w.mask,
              [=](int lane) HWY_ATTR { return Op::run(a[lane], b[lane], c[lane]); });
  return Step::kNext;
}

template <class Op>
Handler one_or_pair(bool is_pair) {
  return is_pair ? &run<Pair<Op>, uint32_t> : &run<Op, uint16_t>;
}

template <FloatOp kOp, class H, bool kFtz>
Handler arithmetic_of(bool is_pair, const FloatModifiers& m) {
  constexpr auto kMode = Rounding::kNearestEven;
  if (m.sat) {
    return one_or_pair<Arithmetic<kOp, ArithmeticOptions{kMode, kFtz, true, false}, H>>(is_pair);
  }
  if (m.relu) {
    return one_or_pair<Arithmetic<kOp, ArithmeticOptions{kMode, kFtz, false, true}, H>>(is_pair);
  }
  return one_or_pair<Arithmetic<kOp, ArithmeticOptions{kMode, kFtz, false, false}, H>>(is_pair);
}

template <class H>
Handler out_of_bounds_fma(bool is_pair, const FloatModifiers& m) {
  constexpr auto kMode = Rounding::kNearestEven;
  constexpr ArithmeticOptions kPlain{.rounding = kMode, .oob = true};
  constexpr ArithmeticOptions kRelu{.rounding = kMode, .relu = true, .oob = true};
  if (m.ftz || m.sat) return nullptr;
  return m.relu ? one_or_pair<Arithmetic<FloatOp::kFma, kRelu, H>>(is_pair)
                : one_or_pair<Arithmetic<FloatOp::kFma, kPlain, H>>(is_pair);
}

template <FloatOp kOp, class H, bool kFtz>
Handler extreme_of(bool is_pair, const FloatModifiers& m) {
  if (m.xorsign) {
    return m.propagate_nan
               ? one_or_pair<Extreme<kOp, MinMaxOptions{kFtz, true, true, true}, H>>(is_pair)
               : one_or_pair<Extreme<kOp, MinMaxOptions{kFtz, false, true, true}, H>>(is_pair);
  }
  return m.propagate_nan
             ? one_or_pair<Extreme<kOp, MinMaxOptions{kFtz, true, false, false}, H>>(is_pair)
             : one_or_pair<Extreme<kOp, MinMaxOptions{kFtz, false, false, false}, H>>(is_pair);
}

template <class H, bool kFtz>
Handler half_of(FloatOp op, bool is_pair, const FloatModifiers& m) {
  switch (op) {
    case FloatOp::kAdd:
      return arithmetic_of<FloatOp::kAdd, H, kFtz>(is_pair, m);
    case FloatOp::kSub:
      return arithmetic_of<FloatOp::kSub, H, kFtz>(is_pair, m);
    case FloatOp::kMul:
      return arithmetic_of<FloatOp::kMul, H, kFtz>(is_pair, m);
    case FloatOp::kFma:
      return m.oob ? out_of_bounds_fma<H>(is_pair, m)
                   : arithmetic_of<FloatOp::kFma, H, kFtz>(is_pair, m);
    case FloatOp::kAbs:
      return arithmetic_of<FloatOp::kAbs, H, kFtz>(is_pair, {});
    case FloatOp::kNeg:
      return arithmetic_of<FloatOp::kNeg, H, kFtz>(is_pair, {});
    case FloatOp::kMin:
      return extreme_of<FloatOp::kMin, H, kFtz>(is_pair, m);
    case FloatOp::kMax:
      return extreme_of<FloatOp::kMax, H, kFtz>(is_pair, m);
    default:
      return nullptr;
  }
}

}  // namespace

Handler half(FloatOp op, ScalarType type, const FloatModifiers& m) {
  const bool is_bf16 = type == ScalarType::kBf16 || type == ScalarType::kBf16x2;
  const bool is_pair = type == ScalarType::kF16x2 || type == ScalarType::kBf16x2;
  if (is_bf16) return m.ftz ? nullptr : half_of<Bf16, false>(op, is_pair, m);
  return m.ftz ? half_of<Fp16, true>(op, is_pair, m) : half_of<Fp16, false>(op, is_pair, m);
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(half);

Handler half_handler(FloatOp op, ScalarType type, const FloatModifiers& modifiers) {
  return HWY_DYNAMIC_DISPATCH(half)(op, type, modifiers);
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
