// Loops over a warp's lanes, compiled once for each instruction set (Highway's foreach_target).
// Per-target include guard.
#if defined(MPFA_SIM_INSN_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_SIM_INSN_LANES_INL_H_
#undef MPFA_SIM_INSN_LANES_INL_H_
#else
#define MPFA_SIM_INSN_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

#include "sim/machine/code.h"
#include "sim/machine/warp.h"

// Lanes of different registers never overlap but when they are the same.
#if defined(__clang__)
#define MPFA_SIM_LANE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define MPFA_SIM_LANE_LOOP _Pragma("GCC ivdep")
#endif

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {

// to[lane] = of(lane) in the lanes of `mask`. `of` is also asked for the others' values, which are
// dropped: it must be safe for any.
template <class T, class F>
HWY_INLINE void store_lanes(T* to, uint32_t mask, F of) {
  if (mask == kAllLanes) {
    MPFA_SIM_LANE_LOOP
    for (int lane = 0; lane < kWarpSize; ++lane) to[lane] = of(lane);
    return;
  }
  alignas(64) T values[kWarpSize];
  MPFA_SIM_LANE_LOOP
  for (int lane = 0; lane < kWarpSize; ++lane) values[lane] = of(lane);
  MPFA_SIM_LANE_LOOP
  for (int lane = 0; lane < kWarpSize; ++lane) {
    to[lane] = (mask >> lane & 1u) != 0 ? values[lane] : to[lane];
  }
}

// Bit i is set where lanes[i] is negative.
HWY_INLINE uint32_t sign_bits(const int32_t* lanes) {
#if HWY_TARGET <= HWY_AVX3
  const auto low = _mm512_movepi32_mask(_mm512_load_si512(lanes));
  const auto high = _mm512_movepi32_mask(_mm512_load_si512(lanes + 16));
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
#elif HWY_TARGET <= HWY_AVX2
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    const __m256 part = _mm256_load_ps(reinterpret_cast<const float*>(lanes + 8 * i));
    bits |= static_cast<uint32_t>(_mm256_movemask_ps(part)) << (8 * i);
  }
  return bits;
#else
  uint32_t bits = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    bits |= (static_cast<uint32_t>(lanes[lane]) >> 31) << lane;
  }
  return bits;
#endif
}

// Bit i is of(i).
template <class F>
HWY_INLINE uint32_t predicate_lanes(F of) {
  alignas(64) int32_t values[kWarpSize];
  MPFA_SIM_LANE_LOOP
  for (int lane = 0; lane < kWarpSize; ++lane) values[lane] = of(lane) ? -1 : 0;
  return sign_bits(values);
}

// Handlers of one result and one to three operands: Op::run(a, b, c) of a lane's values.
template <class Op, class D, class A = D>
Step unary(Warp& w, const Insn& i) {
  const A* a = w.source<A>(i.a);
  store_lanes(w.target<D>(i.dst), w.mask,
              [=](int lane) HWY_ATTR { return static_cast<D>(Op::run(a[lane])); });
  return Step::kNext;
}

template <class Op, class D, class A = D, class B = A>
Step binary(Warp& w, const Insn& i) {
  const A* a = w.source<A>(i.a);
  const B* b = w.source<B>(i.b);
  store_lanes(w.target<D>(i.dst), w.mask,
              [=](int lane) HWY_ATTR { return static_cast<D>(Op::run(a[lane], b[lane])); });
  return Step::kNext;
}

template <class Op, class D, class A = D, class B = A, class C = D>
Step ternary(Warp& w, const Insn& i) {
  const A* a = w.source<A>(i.a);
  const B* b = w.source<B>(i.b);
  const C* c = w.source<C>(i.c);
  store_lanes(w.target<D>(i.dst), w.mask, [=](int lane) HWY_ATTR {
    return static_cast<D>(Op::run(a[lane], b[lane], c[lane]));
  });
  return Step::kNext;
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
