// The types that instructions name: ".u32", ".f16x2".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mpfa::sim {

enum class ScalarType : uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kU16x2,
  kS16x2,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kTf32,
  kF32,
  kF32x2,
  kF64,
  // Packed narrow formats; those of one element stand in tensor-core types only.
  kE4m3,
  kE5m2,
  kE2m3,
  kE3m2,
  kE2m1,
  kUe8m0,
  kE4m3x2,
  kE5m2x2,
  kE2m3x2,
  kE3m2x2,
  kE2m1x2,
  kUe8m0x2,
  kE4m3x4,
  kE5m2x4,
  kE2m3x4,
  kE3m2x4,
  kE2m1x4,
  kU4,
  kS4,
  kB1,
};

// What a modifier names, if it is a type.
std::optional<ScalarType> scalar_type_of(std::string_view name);
std::string_view name_of(ScalarType type);
// Of a value in a register: 1 for kPred, 8 for kE2m1x2.
int bits_of(ScalarType type);

inline bool is_signed(ScalarType type) {
  return type == ScalarType::kS8 || type == ScalarType::kS16 || type == ScalarType::kS32 ||
         type == ScalarType::kS64;
}
inline bool is_float(ScalarType type) {
  return type >= ScalarType::kF16 && type <= ScalarType::kF64;
}

}  // namespace mpfa::sim
