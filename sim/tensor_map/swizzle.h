// How the copy engine and the tensor cores permute shared memory (PTX ISA, "Swizzling Modes").
#pragma once

#include <cstdint>

namespace mpfa::sim {

// Bytes within which pieces change places; the values are those of tensormap.replace.swizzle_mode.
enum class SwizzleSpan : uint8_t { kNone = 0, k32B = 1, k64B = 2, k128B = 3 };

// Bytes that stay together; the values are those of tensormap.replace.swizzle_atomicity.
enum class SwizzleAtom : uint8_t { k16B = 0, k32B = 1, k32BFlip8B = 2, k64B = 3 };

struct Swizzle {
  SwizzleSpan span = SwizzleSpan::kNone;
  SwizzleAtom atom = SwizzleAtom::k16B;

  friend constexpr bool operator==(const Swizzle&, const Swizzle&) = default;

  // Bytes of a row of the pattern; 0 without a swizzle.
  constexpr uint32_t span_bytes() const {
    return span == SwizzleSpan::kNone ? 0 : 16u << static_cast<uint32_t>(span);
  }
  // Consecutive bytes, from a multiple of this, that stay consecutive.
  constexpr uint32_t unit_bytes() const {
    if (span == SwizzleSpan::kNone) return 1u << 31;
    return atom == SwizzleAtom::k32BFlip8B ? 8 : 16;
  }
  // Bytes after which the pattern repeats.
  constexpr uint32_t period_bytes() const { return 8 * (span_bytes() == 0 ? 16 : span_bytes()); }

  // Where the byte of a linear layout lies that would be at `address`. The pattern depends on the
  // 128-byte line of shared memory. `base_offset` is the line in which the pattern begins, modulo
  // 8: other than 0 where it does not begin on a multiple of period_bytes().
  constexpr uint32_t apply(uint32_t address, uint32_t base_offset = 0) const {
    const uint32_t line = (address >> 7) - base_offset;
    if (span == SwizzleSpan::k32B) return address ^ (line & 1) << 4;
    if (span == SwizzleSpan::k64B) return address ^ (line & 3) << 4;
    if (span == SwizzleSpan::kNone) return address;
    if (atom == SwizzleAtom::k16B) return address ^ (line & 7) << 4;
    if (atom == SwizzleAtom::k32B) return address ^ (line & 3) << 5;
    if (atom == SwizzleAtom::k64B) return address ^ (line & 1) << 6;
    return address ^ (line & 3) << 5 ^ (line & 1) << 3;
  }
};

}  // namespace mpfa::sim
