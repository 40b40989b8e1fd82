#include "sim/numerics/dot_add_model.h"

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

struct Instruction {
  Architecture architecture;
  MmaKind kind;
  ElementType a;
  ElementType b;
  AccumulatorType accumulator;

  bool are_both(ElementType type) const { return a == type && b == type; }
};

bool has_instruction_kind(Architecture architecture, MmaKind kind) {
  switch (kind) {
    case MmaKind::kWgmma:
      return architecture == Architecture::kHopper;
    case MmaKind::kTcgen05:
      return architecture == Architecture::kBlackwell;
    case MmaKind::kMmaSync:
      break;
  }
  return true;
}

bool is_four_bit_integer(ElementType type) {
  return type == ElementType::kS4 || type == ElementType::kU4;
}

bool is_eight_bit_integer(ElementType type) {
  return type == ElementType::kS8 || type == ElementType::kU8;
}

// ISA, sections "mma", "wgmma.mma_async" and "tcgen05.mma": the integer types that go together.
bool has_integer_instruction(const Instruction& i) {
  if (i.accumulator != AccumulatorType::kS32) return false;
  if (is_eight_bit_integer(i.a) && is_eight_bit_integer(i.b)) return true;
  if (i.kind == MmaKind::kTcgen05) return false;
  if (i.are_both(ElementType::kB1)) return true;
  return i.kind == MmaKind::kMmaSync && is_four_bit_integer(i.a) && is_four_bit_integer(i.b);
}

bool has_fp8_instruction(const Instruction& i) {
  if (i.architecture == Architecture::kAmpere) return false;
  if (is_fp8(i.a) && is_fp8(i.b)) return true;
  // .kind::f8f6f4.
  const bool narrow = i.kind == MmaKind::kTcgen05 || i.architecture == Architecture::kBlackwellRtx;
  return narrow && is_fp8_or_narrower(i.a) && is_fp8_or_narrower(i.b);
}

bool has_float_instruction(const Instruction& i) {
  const bool to_f32 = i.accumulator == AccumulatorType::kF32;
  if (!to_f32 && i.accumulator != AccumulatorType::kF16) return false;
  if (i.are_both(ElementType::kF16)) return true;
  if (i.are_both(ElementType::kBf16) || i.are_both(ElementType::kTf32)) return to_f32;
  // .kind::f16 of tcgen05 has a type field for each of a and b.
  const bool halves = i.a <= ElementType::kBf16 && i.b <= ElementType::kBf16;
  if (halves) return to_f32 && i.kind == MmaKind::kTcgen05;
  return has_fp8_instruction(i);
}

bool has_instruction(const Instruction& i) {
  if (!has_instruction_kind(i.architecture, i.kind)) return false;
  if (is_integer(i.a)) return has_integer_instruction(i);
  if (i.a == ElementType::kF64) {
    return i.are_both(ElementType::kF64) && i.accumulator == AccumulatorType::kF64 &&
           i.kind == MmaKind::kMmaSync;
  }
  return has_float_instruction(i);
}

// The k of an instruction that has 32 bytes of k: one hardware step from Hopper on.
int whole_step(ElementType a) { return 32 / container_bytes(a); }

void set_fused(const Instruction& i, DotAddModel& model) {
  const bool fp8 = is_fp8_or_narrower(i.a);
  model.step_k = whole_step(i.a);
  if (i.architecture == Architecture::kAmpere || i.architecture == Architecture::kAda) {
    model.step_k /= 2;
    model.fraction_bits = 24;
  }
  const bool short_accumulator = i.architecture == Architecture::kAda || i.kind == MmaKind::kWgmma;
  if (fp8 && short_accumulator) {
    model.fraction_bits = 13;
    model.result_fraction_bits = 13;
  }
  const bool converted =
      i.kind == MmaKind::kMmaSync &&
      (i.architecture == Architecture::kHopper || i.architecture == Architecture::kBlackwell);
  if (fp8 && converted) model.arithmetic = Arithmetic::kFp8AsF16;
}

}  // namespace

Architecture architecture_of(int capability) {
  switch (capability) {
    case 80:
    case 86:
    case 87:
    case 88:
      return Architecture::kAmpere;
    case 89:
      return Architecture::kAda;
    case 90:
      return Architecture::kHopper;
    case 100:
    case 101:
    case 103:
    case 110:
      return Architecture::kBlackwell;
    case 120:
    case 121:
      return Architecture::kBlackwellRtx;
    default:
      break;
  }
  internal::throw_error<InvalidArgument>(
      __FILE__, __LINE__, "compute capability ", capability,
      ": tensor cores are known of 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120 and 121");
}

std::string_view name_of(Architecture architecture) {
  constexpr std::string_view kNames[] = {"Ampere", "Ada", "Hopper", "Blackwell", "Blackwell RTX"};
  return kNames[static_cast<int>(architecture)];
}

std::string_view name_of(MmaKind kind) {
  constexpr std::string_view kNames[] = {"mma.sync", "wgmma", "tcgen05.mma"};
  return kNames[static_cast<int>(kind)];
}

std::string_view name_of(BlockScaledKind kind) {
  constexpr std::string_view kNames[] = {"mxf8f6f4", "mxf4", "mxf4nvf4"};
  return kNames[static_cast<int>(kind)];
}

DotAddModel model_for(Architecture architecture, MmaKind kind, ElementType a, ElementType b,
                      AccumulatorType accumulator) {
  const Instruction instruction{architecture, kind, a, b, accumulator};
  MPFA_CHECK(has_instruction(instruction), name_of(kind), " of ", name_of(a), " x ", name_of(b),
             " into ", name_of(accumulator), ": ", name_of(architecture),
             " has no such instruction");
  DotAddModel model;
  model.a = a;
  model.b = b;
  model.accumulator = accumulator;
  if (is_integer(a)) {
    model.arithmetic = a == ElementType::kB1 ? Arithmetic::kPopulation : Arithmetic::kInteger;
    model.step_k = 0;
  } else if (a == ElementType::kF64) {
    model.arithmetic = Arithmetic::kSequentialFma;
    model.step_k = 0;
  } else {
    set_fused(instruction, model);
  }
  return model;
}

DotAddModel block_scaled_model_for(Architecture architecture, MmaKind kind, BlockScaledKind scaled,
                                   ElementType a, ElementType b, ScaleType scale, int scale_block) {
  const bool has_kind = (kind == MmaKind::kTcgen05 && architecture == Architecture::kBlackwell) ||
                        (kind == MmaKind::kMmaSync && architecture == Architecture::kBlackwellRtx);
  MPFA_CHECK(has_kind, "block-scaled ", name_of(kind), ": ", name_of(architecture),
             " has no such instruction");
  const bool fp4 = a == ElementType::kE2m1 && b == ElementType::kE2m1;
  const bool types =
      scaled == BlockScaledKind::kMxf8f6f4 ? is_fp8_or_narrower(a) && is_fp8_or_narrower(b) : fp4;
  MPFA_CHECK(types, "kind::", name_of(scaled), " of ", name_of(a), " x ", name_of(b),
             ": must be e2m1 twice, or FP8, FP6 and FP4 types for mxf8f6f4");
  // ISA, section "Block Scaling": ue8m0 for 32 elements; mxf4nvf4 has either type for 16, too.
  const bool blocks_of_32 = scale == ScaleType::kUe8m0 && scale_block == 32;
  const bool blocks_of_16 = scale != ScaleType::kNone && scale_block == 16;
  MPFA_CHECK(blocks_of_32 || (blocks_of_16 && scaled == BlockScaledKind::kMxf4nvf4),
             "kind::", name_of(scaled), " with ", name_of(scale), " scales of ", scale_block,
             " elements: must be ue8m0 of 32, or for mxf4nvf4 ue8m0 or ue4m3 of 16");
  DotAddModel model;
  model.a = a;
  model.b = b;
  model.scale = scale;
  model.scale_block = scale_block;
  const bool grouped = scaled != BlockScaledKind::kMxf8f6f4;
  model.arithmetic = grouped ? Arithmetic::kFusedGroupAdd : Arithmetic::kFusedDotAdd;
  model.fraction_bits = grouped ? 35 : 25;
  model.step_k = grouped ? 64 : 32;
  return model;
}

}  // namespace mpfa::sim
