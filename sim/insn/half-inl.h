// Values of FP16 and BF16 patterns, in loops over lanes.
// Per-target include guard.
#if defined(MPFA_SIM_INSN_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MPFA_SIM_INSN_HALF_INL_H_
#undef MPFA_SIM_INSN_HALF_INL_H_
#else
#define MPFA_SIM_INSN_HALF_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {

// Exact, without branches: the exponent is moved by a multiplication, which also brings subnormals
// to their value; infinities and NaN are mended after it.
HWY_INLINE float f16_value(uint16_t bits) {
  const uint32_t magnitude = uint32_t{bits & 0x7FFFu} << 13;
  const float moved = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude | 0x7F800000u;
  const uint32_t value = magnitude >= 0x0F800000u ? special : std::bit_cast<uint32_t>(moved);
  return std::bit_cast<float>(value | uint32_t{bits & 0x8000u} << 16);
}

HWY_INLINE float bf16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
