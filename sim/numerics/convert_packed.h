// The instruction cvt to and from packed formats: f16x2, bf16x2, the FP8, FP6 and FP4 formats and
// ue8m0 (ISA, section Data Movement and Conversion Instructions: cvt). The first operand goes to
// the highest element. Scalar types are in convert.h.
#pragma once

#include <array>
#include <cstdint>

#include "sim/numerics/convert.h"
#include "sim/numerics/float_format.h"
#include "sim/numerics/lane.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

// cvt{.rn,.rz}{.relu}{.satfinite}.{f16x2,bf16x2}.f32 d, a, b. H: Fp16 or Bf16.
template <class H>
MPFA_SIM_LANE uint32_t convert_to_half_x2(float a, float b, ConvertOptions options) {
  const uint32_t high = convert<H>(a, options).bits;
  const uint32_t low = convert<H>(b, options).bits;
  return high << 16 | low;
}

// cvt.rs{.relu}{.satfinite}.{f16x2,bf16x2}.f32 d, a, b, rbits.
uint32_t stochastic_to_f16x2(float a, float b, uint32_t random, bool use_relu, bool satfinite);
uint32_t stochastic_to_bf16x2(float a, float b, uint32_t random, bool use_relu, bool satfinite);

// The formats of 8 bits and less: kE4m3, kE5m2, kE2m3, kE3m2, kE2m1 of float_format.h. An element
// takes 8 bits in a register, the highest two of them zero for FP6; one of FP4 takes 4.
constexpr int narrow_element_bits(const FloatFormat& format) {
  return format.sign_shift() < 4 ? 4 : 8;
}

// One element: always .satfinite. .relu turns what is negative, -0 too, into +0.
uint32_t narrow_code(const FloatFormat& format, float x, RoundingRule rule, bool use_relu);

// cvt.rn.satfinite{.relu}.<format>x2.f32 d, a, b.
uint32_t narrow_x2(const FloatFormat& format, float a, float b, bool use_relu);
// The same of both halves of a, .f16x2 or .bf16x2. PTX 9.0 has it from .f16x2 to FP8; others came
// with 9.1.
template <class H>
uint32_t narrow_x2_of_halves(const FloatFormat& format, uint32_t a, bool use_relu);
// cvt.rs{.relu}.satfinite.<format>x4.f32 d, {a, b, e, f}, rbits.
uint32_t stochastic_narrow_x4(const FloatFormat& format, const std::array<float, 4>& values,
                              uint32_t random, bool use_relu);
// cvt.rn{.relu}.f16x2.<format>x2 d, a.
uint32_t f16x2_of_narrow(const FloatFormat& format, uint32_t a, bool use_relu);

// ue8m0: code c is 2^(c - 127), and 255 is NaN. `mode` is kZero or kUp. A sign is dropped, and what
// is not above the smallest value becomes that, code 0. .satfinite keeps infinities and what rounds
// to 2^128 at code 254. (The CUDA headers' host code; the ISA says less.)
uint32_t ue8m0_code(float x, Rounding mode, bool satfinite);
// cvt{.rz,.rp}{.satfinite}.ue8m0x2.f32 d, a, b.
uint32_t ue8m0_x2(float a, float b, Rounding mode, bool satfinite);
// cvt{.rz,.rp}{.satfinite}.ue8m0x2.bf16x2 d, a.
uint32_t ue8m0_x2_of_bf16x2(uint32_t a, Rounding mode, bool satfinite);
// cvt.rn.bf16x2.ue8m0x2 d, a.
uint32_t bf16x2_of_ue8m0(uint32_t a);

}  // namespace mpfa::sim
