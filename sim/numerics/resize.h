// From one float type to another: widened() exactly, narrowed() rounded in any mode.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mpfa/formats.h"
#include "sim/numerics/float_format.h"
#include "sim/numerics/float_type.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/rounding.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

// In f32 or, for f64, in double. A NaN of f16 becomes f32's canonical one, as in the CUDA headers'
// host code; one of bf16, which the ISA leaves open (section cvt, Notes), keeps its payload.
MPFA_SIM_LANE constexpr float widened(float x) { return x; }
MPFA_SIM_LANE constexpr double widened(double x) { return x; }
MPFA_SIM_LANE constexpr float widened(Fp16 x) { return float_of_code(kF16, x.bits); }
MPFA_SIM_LANE constexpr float widened(Bf16 x) {
  return from_bits<float>(static_cast<uint32_t>(x.bits) << 16);
}
MPFA_SIM_LANE constexpr float widened(Tf32 x) { return from_bits<float>(x.bits); }

// x as To. NaNs become canonical in what is narrower than f64; in f64 they keep their payload.
template <class To>
MPFA_SIM_LANE constexpr To narrowed(float x, Rounding mode) {
  if constexpr (std::is_same_v<To, double>) {
    return x;
  } else if constexpr (std::is_same_v<To, float>) {
    return canonical(x);
  } else if constexpr (std::is_same_v<To, Fp16>) {
    return {static_cast<uint16_t>(round_float(kF16, x, mode, false))};
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return {static_cast<uint16_t>(round_float(kBf16, x, mode, false))};
  } else {
    static_assert(std::is_same_v<To, Tf32>);
    return canonical(Tf32{round_float(kTf32, x, mode, false) << 13});
  }
}

template <class To>
MPFA_SIM_LANE constexpr To narrowed(double x, Rounding mode) {
  if constexpr (std::is_same_v<To, double>) {
    return x;
  } else if constexpr (std::is_same_v<To, float>) {
    return canonical(float_rounded(x, mode));
  } else {
    return narrowed<To>(float_to_odd(x), mode);  // f32 has enough bits for a second rounding
  }
}

}  // namespace mpfa::sim
