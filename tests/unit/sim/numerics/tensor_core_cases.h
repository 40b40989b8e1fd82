// Models, and operands that bring out what is special about them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sim/numerics/dot_add_model.h"

namespace mpfa::sim::testing {

struct NamedModel {
  std::string name;
  DotAddModel model;
};

inline std::string model_name(Architecture architecture, MmaKind kind, const DotAddModel& m) {
  std::string name = std::string(name_of(architecture)) + " " + std::string(name_of(kind)) + " " +
                     std::string(name_of(m.a)) + " x " + std::string(name_of(m.b)) + " into " +
                     std::string(name_of(m.accumulator));
  if (m.scale != ScaleType::kNone) {
    name += ", " + std::string(name_of(m.scale)) + " of " + std::to_string(m.scale_block);
  }
  return name + (m.arithmetic == Arithmetic::kFusedGroupAdd ? ", grouped" : "");
}

inline constexpr Architecture kArchitectures[] = {Architecture::kAmpere, Architecture::kAda,
                                                  Architecture::kHopper, Architecture::kBlackwell,
                                                  Architecture::kBlackwellRtx};
inline constexpr MmaKind kMmaKinds[] = {MmaKind::kMmaSync, MmaKind::kWgmma, MmaKind::kTcgen05};

// All that exist, of any types.
inline std::vector<NamedModel> plain_models() {
  std::vector<NamedModel> models;
  for (const Architecture architecture : kArchitectures) {
    for (const MmaKind kind : kMmaKinds) {
      for (int types = 0; types < 14 * 14 * 4; ++types) {
        const auto a = static_cast<ElementType>(types / 4 % 14);
        const auto b = static_cast<ElementType>(types / 4 / 14);
        const auto accumulator = static_cast<AccumulatorType>(types % 4);
        try {
          const DotAddModel model = model_for(architecture, kind, a, b, accumulator);
          models.push_back({model_name(architecture, kind, model), model});
        } catch (const InvalidArgument&) {
          continue;  // no such instruction
        }
      }
    }
  }
  return models;
}

inline std::vector<NamedModel> block_scaled_models() {
  constexpr Architecture kArch = Architecture::kBlackwell;
  constexpr MmaKind kKind = MmaKind::kTcgen05;
  std::vector<NamedModel> models;
  const auto add = [&](BlockScaledKind kind, ElementType a, ElementType b, ScaleType scale,
                       int block) {
    const DotAddModel model = block_scaled_model_for(kArch, kKind, kind, a, b, scale, block);
    models.push_back({model_name(kArch, kKind, model), model});
  };
  for (int types = 0; types < 25; ++types) {
    const auto a = static_cast<ElementType>(static_cast<int>(ElementType::kE4m3) + types % 5);
    const auto b = static_cast<ElementType>(static_cast<int>(ElementType::kE4m3) + types / 5);
    add(BlockScaledKind::kMxf8f6f4, a, b, ScaleType::kUe8m0, 32);
  }
  constexpr ElementType kFp4 = ElementType::kE2m1;
  add(BlockScaledKind::kMxf4, kFp4, kFp4, ScaleType::kUe8m0, 32);
  add(BlockScaledKind::kMxf4nvf4, kFp4, kFp4, ScaleType::kUe8m0, 16);
  add(BlockScaledKind::kMxf4nvf4, kFp4, kFp4, ScaleType::kUe4m3, 16);
  return models;
}

// How operands are drawn.
struct Draw {
  std::string name;
  int spread = 0;      // exponents lie this far around that of 1
  double zeros = 0;    // how many are zero
  double wild = 0;     // how many are any code: infinities, NaNs and subnormals with the rest
  int c_exponent = 0;  // what is added to the exponent of C
  bool one_sign = false;
  bool full = false;  // all bits of significands are ones
};

inline std::vector<Draw> draws() {
  return {
      {.name = "close exponents", .spread = 1},
      {.name = "wide exponents", .spread = 12},
      {.name = "all finite exponents", .spread = 1000},
      {.name = "many zeros", .spread = 6, .zeros = 0.6},
      {.name = "large sums", .spread = 0, .one_sign = true},
      {.name = "largest sums", .spread = 0, .one_sign = true, .full = true},
      {.name = "huge c", .spread = 3, .c_exponent = 22},
      {.name = "tiny c", .spread = 3, .c_exponent = -24},
      {.name = "few specials", .spread = 8, .zeros = 0.1, .wild = 0.02},
      {.name = "any codes", .wild = 1},
      {.name = "zeros and few codes", .zeros = 0.9, .wild = 0.05},
  };
}

class Operands {
 public:
  Operands(const Draw& draw, uint64_t seed) : draw_(draw), rng_(seed) {}

  // A finite code, unless it is wild.
  uint64_t code(const FloatFormat& format, int exponent = 0) {
    if (chance(draw_.wild)) return rng_() & mask(format.sign_shift() + 1);
    if (chance(draw_.zeros)) return (rng_() & 1) << format.sign_shift();
    const int top = static_cast<int>(format.max_finite >> format.mantissa_bits);
    const auto field_at = [&](int e) { return std::clamp(format.bias + e, 0, top); };
    const int low = field_at(exponent - draw_.spread);
    const int high = field_at(exponent + draw_.spread);
    const uint64_t field = low + rng_() % (high - low + 1);
    const uint64_t magnitude = field << format.mantissa_bits |
                               ((draw_.full ? ~uint64_t{0} : rng_()) & mask(format.mantissa_bits));
    const uint64_t sign = draw_.one_sign ? 0 : rng_() & 1;
    return std::min(magnitude, format.max_finite) | sign << format.sign_shift();
  }

  uint64_t element(ElementType type) {
    if (is_integer(type)) {
      const bool extreme = draw_.spread == 0;
      return extreme ? mask(8 * container_bytes(type) - 1)
                     : rng_() & mask(8 * container_bytes(type));
    }
    const uint64_t bits = code(format_of(type)) << unused_low_bits(type);
    if (type != ElementType::kTf32) return bits;
    return bits | (rng_() & mask(13));
  }

  uint64_t accumulator(AccumulatorType type) {
    switch (type) {
      case AccumulatorType::kF32:
        return code(kF32, draw_.c_exponent);
      case AccumulatorType::kF16:
        return code(kF16, draw_.c_exponent / 2);
      case AccumulatorType::kF64:
        return code(kF64, draw_.c_exponent);
      case AccumulatorType::kS32:
        break;
    }
    const uint64_t bits = rng_() & mask(32);
    // Often close to where sums overflow.
    return chance(0.5) ? (bits & 0x80000000) ^ 0x7FFFFFFF ^ (bits & 0xFF) : bits;
  }

  uint8_t scale(ScaleType type) {
    if (chance(draw_.wild)) return static_cast<uint8_t>(rng_());
    if (type == ScaleType::kUe4m3) return static_cast<uint8_t>(code(kE4m3));
    const int spread = std::min(draw_.spread, 127);
    return static_cast<uint8_t>(127 - spread + static_cast<int>(rng_() % (2 * spread + 1)));
  }

 private:
  static uint64_t mask(int bits) { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
  bool chance(double share) {
    return share > 0 && std::uniform_real_distribution<double>()(rng_) < share;
  }

  const Draw draw_;
  std::mt19937_64 rng_;
};

}  // namespace mpfa::sim::testing
