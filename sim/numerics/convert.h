// The instruction cvt between scalar types (ISA, section Data Movement and Conversion Instructions:
// cvt): integers of 8 to 64 bits, f16, bf16, tf32, f32 and f64. Packed and narrow formats are in
// convert_packed.h.
//
// convert<To>(value, options) does all of it. With constant options nothing is left of the choice,
// and what is common (f32 to f16 and bf16, f32 to and from 32-bit integers) is free of branches, so
// that a loop over lanes becomes vector code. What exists in PTX, and for which targets, is the
// decoder's to say.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "mpfa/formats.h"
#include "sim/numerics/exact.h"
#include "sim/numerics/float_format.h"
#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/resize.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

struct ConvertOptions {
  Rounding rounding = Rounding::kNearestEven;  // .rn and the like, or .rni and the like
  bool to_integral = false;                    // .rni and the like between floats of one type
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool satfinite = false;
};

// ---- Integer to integer -------------------------------------------------------------------------

// Extends or chops; .sat clamps to what To holds.
template <class To, class From>
MPFA_SIM_LANE constexpr To convert_integer(From a, bool sat) {
  using Limits = std::numeric_limits<To>;
  if (sat && std::cmp_less(a, Limits::min())) return Limits::min();
  if (sat && std::cmp_greater(a, Limits::max())) return Limits::max();
  return static_cast<To>(a);
}

// ---- Float to float -----------------------------------------------------------------------------

// To an integral value of the same type. Zeros keep the sign of what they come from.
template <class F>
MPFA_SIM_LANE F integral(F x, Rounding mode) {
  if (std::is_same_v<F, double> && is_nan(x)) return returned_nan(x);
  switch (mode) {
    case Rounding::kZero:
      return std::trunc(x);
    case Rounding::kDown:
      return std::floor(x);
    case Rounding::kUp:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

template <class F>
MPFA_SIM_LANE constexpr F modified(F x, ConvertOptions options) {
  if constexpr (std::is_same_v<F, float>) {
    if (options.ftz) x = flush_subnormal(x);
  }
  if (options.satfinite) x = clamp_to_finite(x);
  if (options.relu) x = relu(x);
  return options.sat ? saturate(x) : x;
}

// .ftz leaves a subnormal f32 that becomes an f16, as on an H200: one of the smallest f16 in .rm or
// .rp.
template <class To, class From>
MPFA_SIM_LANE constexpr From source(From x, ConvertOptions options) {
  if constexpr (std::is_same_v<From, float> && !std::is_same_v<To, Fp16>) {
    if (options.ftz) return flush_subnormal(canonical(x));
  }
  return x;
}

// A NaN of f64 or to f64 keeps its sign and the upper bits of its payload, and becomes quiet.
template <class To, class From>
MPFA_SIM_LANE constexpr To resized_nan(From x) {
  constexpr int kDropped = FloatType<From>::kMantissaBits - FloatType<To>::kMantissaBits;
  constexpr int kSignShift = static_cast<int>(8 * sizeof(From)) - 1;
  const uint64_t bits = bits_of(x);
  const uint64_t payload =
      kDropped > 0 ? bits >> (kDropped > 0 ? kDropped : 0) : bits << (kDropped > 0 ? 0 : -kDropped);
  constexpr uint64_t kInfinity = FloatType<To>::kInfinity;
  constexpr uint64_t kMantissa = (uint64_t{1} << FloatType<To>::kMantissaBits) - 1;
  constexpr uint64_t kQuiet = uint64_t{1} << (FloatType<To>::kMantissaBits - 1);
  const uint64_t sign = (bits >> kSignShift) != 0 ? uint64_t{FloatType<To>::kSign} : 0;
  return from_bits<To>(static_cast<BitsOf<To>>(sign | kInfinity | kQuiet | (payload & kMantissa)));
}

// tf32 of NaN, which the ISA leaves open, as on an H200: .rna chops the payload, and .satfinite
// then takes a unit away.
MPFA_SIM_LANE constexpr Tf32 tf32_of_nan(float x, ConvertOptions options) {
  constexpr uint32_t kUnit = FloatType<Tf32>::kUnit;
  if (options.rounding != Rounding::kNearestAway) return {FloatType<Tf32>::kNan & ~(kUnit - 1)};
  return {(bits_of(x) & ~(kUnit - 1)) - (options.satfinite ? kUnit : 0)};
}

// What an H200 gives for NaN, where that is not the canonical NaN of To.
template <class To, class From>
inline constexpr bool kKeepsPayload = (std::is_same_v<From, double> &&
                                       !std::is_same_v<To, double>) ||
                                      (std::is_same_v<From, Fp16> && std::is_same_v<To, double>);

template <class To, class From>
MPFA_SIM_LANE To convert_float(From a, ConvertOptions options) {
  if constexpr (kKeepsPayload<To, From>) {
    if (is_nan(a)) return modified(resized_nan<To>(a), options);
  }
  if constexpr (std::is_same_v<To, Tf32>) {
    if (is_nan(a)) return tf32_of_nan(a, options);
  }
  auto wide = widened(source<To>(a, options));
  if constexpr (std::is_same_v<To, float> && !std::is_same_v<From, double>) {
    // A mere move but for the width, unless the canonical NaN is asked for by a modifier.
    constexpr bool kMoves = !std::is_same_v<From, Fp16>;
    if (kMoves && !options.to_integral && !options.ftz && !options.sat) return wide;
  }
  if (options.to_integral) wide = integral(wide, options.rounding);
  To result = narrowed<To>(wide, options.rounding);
  if constexpr (std::is_same_v<To, float> && std::is_same_v<From, double>) {
    if (options.ftz) result = flush_tiny(result, wide, options.rounding);
  }
  return modified(result, options);
}

// ---- Integer to float ---------------------------------------------------------------------------

template <class To>
struct FormatOf;
template <>
struct FormatOf<Fp16> {
  static constexpr FloatFormat kFormat = kF16;
};
template <>
struct FormatOf<Bf16> {
  static constexpr FloatFormat kFormat = kBf16;
};
template <>
struct FormatOf<float> {
  static constexpr FloatFormat kFormat = kF32;
};
template <>
struct FormatOf<double> {
  static constexpr FloatFormat kFormat = kF64;
};

template <class To, class From>
MPFA_SIM_LANE To float_of_integer(From a, Rounding mode) {
  constexpr bool kNative = std::is_same_v<To, float> || std::is_same_v<To, double>;
  if constexpr (kNative) {
    if (mode == Rounding::kNearestEven) return static_cast<To>(a);
  }
  if constexpr (sizeof(From) <= 4) {
    return narrowed<To>(static_cast<double>(a), mode);  // exact in double
  } else {
    const uint64_t code = round_exact(FormatOf<To>::kFormat, exact_value(a), mode);
    return from_bits<To>(static_cast<BitsOf<To>>(code));
  }
}

template <class To, class From>
MPFA_SIM_LANE To convert_integer_to_float(From a, ConvertOptions options) {
  return modified(float_of_integer<To>(a, options.rounding), options);
}

// ---- Float to integer ---------------------------------------------------------------------------

// x, which To's range holds. An unsigned 32-bit cast has no vector instruction before AVX-512, so
// it is made of a signed one.
template <class To>
MPFA_SIM_LANE constexpr To cast_in_range(double x) {
  if constexpr (std::is_same_v<To, uint32_t>) {
    return static_cast<uint32_t>(static_cast<int32_t>(x - 0x1p31)) ^ 0x80000000u;
  } else {
    return static_cast<To>(x);
  }
}

template <class To>
MPFA_SIM_LANE constexpr To cast_clamped(double x) {
  using Limits = std::numeric_limits<To>;
  constexpr auto kLow = static_cast<double>(Limits::min());
  if constexpr (sizeof(To) <= 4) {
    constexpr auto kHigh = static_cast<double>(Limits::max());
    const double above = x > kLow ? x : kLow;  // a NaN becomes kLow
    return cast_in_range<To>(above < kHigh ? above : kHigh);
  } else {
    constexpr double kEnd = std::is_signed_v<To> ? 0x1p63 : 0x1p64;  // max() is not a double
    if (x >= kEnd) return Limits::max();
    return x > kLow ? static_cast<To>(x) : Limits::min();
  }
}

// Clamps to To's range, so .sat adds nothing. A NaN becomes 0, or where f64 or 64 bits are involved
// the highest bit alone (ISA, section cvt, Integer Notes).
template <class To, class From>
MPFA_SIM_LANE To convert_float_to_integer(From a, ConvertOptions options) {
  const auto wide = widened(source<To>(a, options));
  const double value = integral(wide, options.rounding);
  constexpr bool kZeroNan = !std::is_same_v<From, double> && sizeof(To) < 8;
  constexpr auto kNanResult =
      static_cast<To>(kZeroNan ? uint64_t{0} : uint64_t{1} << (sizeof(To) * 8 - 1));
  return is_nan(wide) ? kNanResult : cast_clamped<To>(value);
}

// ---- All of them --------------------------------------------------------------------------------

template <class To, class From>
MPFA_SIM_LANE To convert(From a, ConvertOptions options = {}) {
  if constexpr (kIsFloatType<From> && kIsFloatType<To>) {
    return convert_float<To>(a, options);
  } else if constexpr (kIsFloatType<From>) {
    return convert_float_to_integer<To>(a, options);
  } else if constexpr (kIsFloatType<To>) {
    return convert_integer_to_float<To>(a, options);
  } else {
    return convert_integer<To>(a, options.sat);
  }
}

}  // namespace mpfa::sim
