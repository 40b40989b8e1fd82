#include "sim/numerics/convert_packed.h"

namespace mpfa::sim {
namespace {

// The halves of a register of two.
template <class H>
float high_half(uint32_t pair) {
  return widened(from_bits<H>(static_cast<uint16_t>(pair >> 16)));
}
template <class H>
float low_half(uint32_t pair) {
  return widened(from_bits<H>(static_cast<uint16_t>(pair)));
}

template <class H>
uint32_t stochastic_half(const FloatFormat& format, float x, RoundingRule rule, bool use_relu,
                         bool satfinite) {
  const auto half = from_bits<H>(static_cast<uint16_t>(round_float(format, x, rule, satfinite)));
  return (use_relu ? relu(half) : half).bits;
}

}  // namespace

uint32_t stochastic_to_f16x2(float a, float b, uint32_t random, bool use_relu, bool satfinite) {
  // An f16 has 13 bits less than an f32: as many random ones, the lowest of each half.
  const RoundingRule rule_a(random >> 16 & 0x1FFFu, 13);
  const RoundingRule rule_b(random & 0x1FFFu, 13);
  return stochastic_half<Fp16>(kF16, a, rule_a, use_relu, satfinite) << 16 |
         stochastic_half<Fp16>(kF16, b, rule_b, use_relu, satfinite);
}

uint32_t stochastic_to_bf16x2(float a, float b, uint32_t random, bool use_relu, bool satfinite) {
  const RoundingRule rule_a(random >> 16, 16);
  const RoundingRule rule_b(random & 0xFFFFu, 16);
  return stochastic_half<Bf16>(kBf16, a, rule_a, use_relu, satfinite) << 16 |
         stochastic_half<Bf16>(kBf16, b, rule_b, use_relu, satfinite);
}

uint32_t narrow_code(const FloatFormat& format, float x, RoundingRule rule, bool use_relu) {
  const bool clamp = use_relu && is_negative(x) && !is_nan(x);
  return round_float(format, clamp ? 0.0f : x, rule, true);
}

uint32_t narrow_x2(const FloatFormat& format, float a, float b, bool use_relu) {
  const uint32_t high = narrow_code(format, a, Rounding::kNearestEven, use_relu);
  const uint32_t low = narrow_code(format, b, Rounding::kNearestEven, use_relu);
  return high << narrow_element_bits(format) | low;
}

template <class H>
uint32_t narrow_x2_of_halves(const FloatFormat& format, uint32_t a, bool use_relu) {
  return narrow_x2(format, high_half<H>(a), low_half<H>(a), use_relu);
}
template uint32_t narrow_x2_of_halves<Fp16>(const FloatFormat&, uint32_t, bool);
template uint32_t narrow_x2_of_halves<Bf16>(const FloatFormat&, uint32_t, bool);

uint32_t stochastic_narrow_x4(const FloatFormat& format, const std::array<float, 4>& values,
                              uint32_t random, bool use_relu) {
  // Sixteen random bits for the first two operands and sixteen for the last two: of FP8 and FP6 the
  // halves of rbits, of FP4 the upper and the lower bytes of the halves. Both operands of a pair
  // use them all here, from the highest discarded bit down: the ISA's figures of the layouts say
  // more than its text, and no host code or measurement of it is known to us.
  const bool bytes = narrow_element_bits(format) == 4;
  const uint32_t first = bytes ? (random >> 16 & 0xFF00u) | (random >> 8 & 0xFFu) : random >> 16;
  const uint32_t last = bytes ? (random >> 8 & 0xFF00u) | (random & 0xFFu) : random & 0xFFFFu;
  uint32_t codes = 0;
  for (int i = 0; i < 4; ++i) {
    const RoundingRule rule(i < 2 ? first : last, 16);
    codes = codes << narrow_element_bits(format) |
            narrow_code(format, values[static_cast<size_t>(i)], rule, use_relu);
  }
  return codes;
}

uint32_t f16x2_of_narrow(const FloatFormat& format, uint32_t a, bool use_relu) {
  // Every value of these formats is one of f16.
  const auto convert_one = [&](uint32_t code) -> uint32_t {
    const auto half = narrowed<Fp16>(float_of_code(format, code), Rounding::kNearestEven);
    return (use_relu ? relu(half) : half).bits;
  };
  const uint32_t mask = (uint32_t{2} << format.sign_shift()) - 1;
  const uint32_t high = a >> narrow_element_bits(format) & mask;
  return convert_one(high) << 16 | convert_one(a & mask);
}

uint32_t ue8m0_code(float x, Rounding mode, bool satfinite) {
  constexpr uint32_t kNan = 0xFF;
  const uint32_t magnitude = magnitude_bits(x);
  if (is_nan(x)) return kNan;
  uint32_t code = magnitude >> 23;
  const bool inexact = (magnitude & 0x7FFFFFu) != 0;
  const bool above_smallest = magnitude > 0x400000u;  // 2^-127
  if (mode == Rounding::kUp && inexact && above_smallest) ++code;
  return satfinite && code == kNan ? kNan - 1 : code;
}

uint32_t ue8m0_x2(float a, float b, Rounding mode, bool satfinite) {
  return ue8m0_code(a, mode, satfinite) << 8 | ue8m0_code(b, mode, satfinite);
}

uint32_t ue8m0_x2_of_bf16x2(uint32_t a, Rounding mode, bool satfinite) {
  return ue8m0_x2(high_half<Bf16>(a), low_half<Bf16>(a), mode, satfinite);
}

uint32_t bf16x2_of_ue8m0(uint32_t a) {
  const auto convert_one = [](uint32_t code) -> uint32_t {
    if (code == 0xFF) return FloatType<Bf16>::kNan;
    return code == 0 ? 0x40u : code << 7;  // 2^-127 is a subnormal
  };
  return convert_one(a >> 8 & 0xFFu) << 16 | convert_one(a & 0xFFu);
}

}  // namespace mpfa::sim
