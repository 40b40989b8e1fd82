#include "sim/insn/scalar_type.h"

#include <array>

namespace mpfa::sim {
namespace {

struct Row {
  ScalarType type;
  std::string_view name;
  int bits;
};

constexpr std::array kRows = {
    Row{ScalarType::kPred, "pred", 1},      Row{ScalarType::kB8, "b8", 8},
    Row{ScalarType::kB16, "b16", 16},       Row{ScalarType::kB32, "b32", 32},
    Row{ScalarType::kB64, "b64", 64},       Row{ScalarType::kB128, "b128", 128},
    Row{ScalarType::kU8, "u8", 8},          Row{ScalarType::kU16, "u16", 16},
    Row{ScalarType::kU32, "u32", 32},       Row{ScalarType::kU64, "u64", 64},
    Row{ScalarType::kS8, "s8", 8},          Row{ScalarType::kS16, "s16", 16},
    Row{ScalarType::kS32, "s32", 32},       Row{ScalarType::kS64, "s64", 64},
    Row{ScalarType::kU16x2, "u16x2", 32},   Row{ScalarType::kS16x2, "s16x2", 32},
    Row{ScalarType::kF16, "f16", 16},       Row{ScalarType::kF16x2, "f16x2", 32},
    Row{ScalarType::kBf16, "bf16", 16},     Row{ScalarType::kBf16x2, "bf16x2", 32},
    Row{ScalarType::kTf32, "tf32", 32},     Row{ScalarType::kF32, "f32", 32},
    Row{ScalarType::kF32x2, "f32x2", 64},   Row{ScalarType::kF64, "f64", 64},
    Row{ScalarType::kE4m3, "e4m3", 8},      Row{ScalarType::kE5m2, "e5m2", 8},
    Row{ScalarType::kE2m3, "e2m3", 8},      Row{ScalarType::kE3m2, "e3m2", 8},
    Row{ScalarType::kE2m1, "e2m1", 4},      Row{ScalarType::kUe8m0, "ue8m0", 8},
    Row{ScalarType::kE4m3x2, "e4m3x2", 16}, Row{ScalarType::kE5m2x2, "e5m2x2", 16},
    Row{ScalarType::kE2m3x2, "e2m3x2", 16}, Row{ScalarType::kE3m2x2, "e3m2x2", 16},
    Row{ScalarType::kE2m1x2, "e2m1x2", 8},  Row{ScalarType::kUe8m0x2, "ue8m0x2", 16},
    Row{ScalarType::kE4m3x4, "e4m3x4", 32}, Row{ScalarType::kE5m2x4, "e5m2x4", 32},
    Row{ScalarType::kE2m3x4, "e2m3x4", 32}, Row{ScalarType::kE3m2x4, "e3m2x4", 32},
    Row{ScalarType::kE2m1x4, "e2m1x4", 16}, Row{ScalarType::kU4, "u4", 4},
    Row{ScalarType::kS4, "s4", 4},          Row{ScalarType::kB1, "b1", 1},
};

constexpr bool in_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].type) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::optional<ScalarType> scalar_type_of(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string_view name_of(ScalarType type) { return kRows[static_cast<size_t>(type)].name; }

int bits_of(ScalarType type) { return kRows[static_cast<size_t>(type)].bits; }

}  // namespace mpfa::sim
