// min, max, abs and neg of f16, bf16, f32 and f64 (ISA, sections min and max of Floating Point and
// of Half Precision Floating Point Instructions): on the bits, so for every type alike.
//
// The ISA leaves the NaNs that they return open. An H200 gives the canonical one; of f64, the last
// operand that is a NaN, quiet and with its sign, of abs and neg too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"

namespace mpfa::sim {

// `propagate_nan` is .NaN. .xorsign always comes with .abs, and not with three operands; .abs alone
// only with three.
struct MinMaxOptions {
  bool ftz = false;
  bool propagate_nan = false;
  bool abs = false;
  bool xorsign = false;
};

// Orders like the values, with -0 below +0.
template <class F>
MPFA_SIM_LANE constexpr auto order_key(F x) {
  using Bits = BitsOf<F>;
  using Signed = std::make_signed_t<Bits>;
  const Bits bits = bits_of(x);
  const auto flipped = static_cast<Bits>(bits ^ static_cast<Bits>(~FloatType<F>::kSign));
  return static_cast<Signed>(is_negative(x) ? flipped : bits);
}

template <class F>
MPFA_SIM_LANE constexpr F magnitude(F x) {
  return from_bits<F>(magnitude_bits(x));
}

template <bool kMax, class F>
MPFA_SIM_LANE constexpr F min_or_max(F a, F b, bool propagate_nan) {
  const bool first = kMax ? order_key(a) > order_key(b) : order_key(a) < order_key(b);
  F chosen = first ? a : b;
  chosen = is_nan(a) ? b : chosen;
  chosen = is_nan(b) ? a : chosen;  // a NaN too if both are
  const bool nan = propagate_nan ? is_nan(a) || is_nan(b) : is_nan(a) && is_nan(b);
  return nan ? returned_nan(is_nan(b) ? b : a) : chosen;
}

template <MinMaxOptions kOptions, class F>
MPFA_SIM_LANE constexpr F min_max_operand(F x) {
  const F flushed = kOptions.ftz ? flush_subnormal(x) : x;
  return kOptions.abs ? magnitude(flushed) : flushed;
}

template <bool kMax, MinMaxOptions kOptions, class F>
MPFA_SIM_LANE constexpr F min_or_max_of_two(F a, F b) {
  const F chosen = min_or_max<kMax>(min_max_operand<kOptions>(a), min_max_operand<kOptions>(b),
                                    kOptions.propagate_nan);
  if (!kOptions.xorsign) return chosen;
  const auto sign = static_cast<BitsOf<F>>((bits_of(a) ^ bits_of(b)) & FloatType<F>::kSign);
  const F with_sign = from_bits<F>(static_cast<BitsOf<F>>(magnitude_bits(chosen) | sign));
  return is_nan(chosen) ? chosen : with_sign;
}

template <bool kMax, MinMaxOptions kOptions, class F>
MPFA_SIM_LANE constexpr F min_or_max_of_three(F a, F b, F c) {
  const F chosen = min_or_max<kMax>(min_max_operand<kOptions>(a), min_max_operand<kOptions>(b),
                                    kOptions.propagate_nan);
  return min_or_max<kMax>(chosen, min_max_operand<kOptions>(c), kOptions.propagate_nan);
}

template <MinMaxOptions kOptions = MinMaxOptions{}, class F>
MPFA_SIM_LANE constexpr F float_min(F a, F b) {
  return min_or_max_of_two<false, kOptions>(a, b);
}
template <MinMaxOptions kOptions = MinMaxOptions{}, class F>
MPFA_SIM_LANE constexpr F float_max(F a, F b) {
  return min_or_max_of_two<true, kOptions>(a, b);
}
template <MinMaxOptions kOptions = MinMaxOptions{}, class F>
MPFA_SIM_LANE constexpr F float_min(F a, F b, F c) {
  return min_or_max_of_three<false, kOptions>(a, b, c);
}
template <MinMaxOptions kOptions = MinMaxOptions{}, class F>
MPFA_SIM_LANE constexpr F float_max(F a, F b, F c) {
  return min_or_max_of_three<true, kOptions>(a, b, c);
}

template <bool kFtz = false, class F>
MPFA_SIM_LANE constexpr F float_abs(F x) {
  return is_nan(x) ? returned_nan(x) : magnitude(kFtz ? flush_subnormal(x) : x);
}
template <bool kFtz = false, class F>
MPFA_SIM_LANE constexpr F float_neg(F x) {
  const F flushed = kFtz ? flush_subnormal(x) : x;
  const F negated = from_bits<F>(static_cast<BitsOf<F>>(bits_of(flushed) ^ FloatType<F>::kSign));
  return is_nan(x) ? returned_nan(x) : negated;
}

}  // namespace mpfa::sim
