// The approximate functions.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/float_function.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "sim/insn/float_handlers.h"
#include "sim/insn/lanes-inl.h"
#include "sim/numerics/approximate.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

template <bool kFtz>
struct Ex2 {
  HWY_INLINE static float run(float a) { return ex2_approx<kFtz>(a); }
};
template <bool kFtz>
struct Lg2 {
  HWY_INLINE static float run(float a) { return lg2_approx<kFtz>(a); }
};
template <bool kFtz>
struct Rcp {
  HWY_INLINE static float run(float a) { return rcp_approx<kFtz>(a); }
};
template <bool kFtz>
struct Rsqrt {
  HWY_INLINE static float run(float a) { return rsqrt_approx<kFtz>(a); }
};
template <bool kFtz>
struct Sqrt {
  HWY_INLINE static float run(float a) { return sqrt_approx<kFtz>(a); }
};
template <bool kFtz>
struct Sin {
  static float run(float a) { return sin_approx(a, kFtz); }
};
template <bool kFtz>
struct Cos {
  static float run(float a) { return cos_approx(a, kFtz); }
};
struct Tanh {
  static float run(float a) { return tanh_approx(a); }
};
template <bool kFull, bool kFtz>
struct Div {
  HWY_INLINE static float run(float a, float b) {
    return kFull ? div_full<kFtz>(a, b) : div_approx<kFtz>(a, b);
  }
};

template <bool kFtz, class H>
struct HalfEx2 {
  HWY_INLINE static uint16_t run(uint16_t a) { return half_ex2_approx<kFtz>(H{a}).bits; }
};
template <class H>
struct HalfTanh {
  static uint16_t run(uint16_t a) { return tanh_approx(H{a}).bits; }
};
template <class Op>
struct Pair {
  HWY_INLINE static uint32_t run(uint32_t a) {
    const uint32_t high = Op::run(static_cast<uint16_t>(a >> 16));
    return high << 16 | Op::run(static_cast<uint16_t>(a));
  }
};

template <template <bool> class Op>
Handler single_of(bool ftz) {
  return ftz ? &unary<Op<true>, float> : &unary<Op<false>, float>;
}

Handler single(FloatFunction function, bool ftz) {
  switch (function) {
    case FloatFunction::kEx2:
      return single_of<Ex2>(ftz);
    case FloatFunction::kLg2:
      return single_of<Lg2>(ftz);
    case FloatFunction::kRcp:
      return single_of<Rcp>(ftz);
    case FloatFunction::kRsqrt:
      return single_of<Rsqrt>(ftz);
    case FloatFunction::kSqrt:
      return single_of<Sqrt>(ftz);
    case FloatFunction::kSin:
      return single_of<Sin>(ftz);
    case FloatFunction::kCos:
      return single_of<Cos>(ftz);
    case FloatFunction::kTanh:
      return &unary<Tanh, float>;
  }
  return nullptr;
}

template <class H, bool kFtz>
Handler half_of(FloatFunction function, bool is_pair) {
  if (function == FloatFunction::kEx2) {
    return is_pair ? &unary<Pair<HalfEx2<kFtz, H>>, uint32_t> : &unary<HalfEx2<kFtz, H>, uint16_t>;
  }
  if (function == FloatFunction::kTanh) {
    return is_pair ? &unary<Pair<HalfTanh<H>>, uint32_t> : &unary<HalfTanh<H>, uint16_t>;
  }
  return nullptr;
}

}  // namespace

Handler approximate(FloatFunction function, ScalarType type, bool ftz) {
  switch (type) {
    case ScalarType::kF32:
      return single(function, ftz);
    case ScalarType::kF16:
    case ScalarType::kF16x2:
      return half_of<Fp16, false>(function, type == ScalarType::kF16x2);
    case ScalarType::kBf16:
    case ScalarType::kBf16x2:
      return half_of<Bf16, true>(function, type == ScalarType::kBf16x2);
    default:
      return nullptr;
  }
}

Handler approximate_division(bool full, bool ftz) {
  if (full) return ftz ? &binary<Div<true, true>, float> : &binary<Div<true, false>, float>;
  return ftz ? &binary<Div<false, true>, float> : &binary<Div<false, false>, float>;
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(approximate);
HWY_EXPORT(approximate_division);

Handler approximate_handler(FloatFunction function, ScalarType type, bool ftz) {
  return HWY_DYNAMIC_DISPATCH(approximate)(function, type, ftz);
}

Handler approximate_division_handler(bool full, bool ftz) {
  return HWY_DYNAMIC_DISPATCH(approximate_division)(full, ftz);
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
