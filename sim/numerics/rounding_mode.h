// How a result is rounded: the modifiers .rn .rna .rz .rm .rp .rs, and likewise .rni .rzi .rmi
// .rpi.
#pragma once

#include <cstdint>

namespace mpfa::sim {

enum class Rounding : uint8_t {
  kNearestEven,  // .rn .rni
  kNearestAway,  // .rna
  kZero,         // .rz .rzi
  kDown,         // .rm .rmi
  kUp,           // .rp .rpi
  kStochastic,   // .rs
};

// A mode and what .rs needs: away from zero where the discarded fraction and the random one add up
// to a unit or more. The random fraction is `random` / 2^`random_bits`, so its highest bit lines up
// with the highest discarded one.
struct RoundingRule {
  Rounding mode = Rounding::kNearestEven;
  uint32_t random = 0;
  int random_bits = 0;

  constexpr RoundingRule() = default;
  // A plain mode is a rule.
  constexpr RoundingRule(Rounding plain) : mode(plain) {}  // NOLINT(google-explicit-constructor)
  constexpr RoundingRule(uint32_t random_value, int bits)
      : mode(Rounding::kStochastic), random(random_value), random_bits(bits) {}
};

// Whether a finite value beyond the largest one becomes infinity rather than the largest (IEEE 754,
// 7.4). .rs adds to the magnitude before it is cut, so it goes the way of .rn.
constexpr bool overflows_to_infinity(Rounding mode, bool negative) {
  switch (mode) {
    case Rounding::kZero:
      return false;
    case Rounding::kDown:
      return negative;
    case Rounding::kUp:
      return !negative;
    default:
      return true;
  }
}

}  // namespace mpfa::sim
