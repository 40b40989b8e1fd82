// cvt.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "sim/insn/convert_handlers.h"
#include "sim/insn/decoder.h"
#include "sim/insn/families.h"
#include "sim/machine/warp.h"
#include "sim/numerics/convert_packed.h"

namespace mpfa::sim {
namespace {

struct TakenOptions {
  ConvertOptions options;
  bool stochastic = false;
};

TakenOptions take_options(InsnDecoder& d, ScalarType to, ScalarType from) {
  TakenOptions taken;
  ConvertOptions& o = taken.options;
  static constexpr std::array kModes = {
      Rounding::kNearestEven, Rounding::kZero,        Rounding::kDown,
      Rounding::kUp,          Rounding::kNearestEven, Rounding::kZero,
      Rounding::kDown,        Rounding::kUp,          Rounding::kNearestAway};
  constexpr int kFirstIntegral = 4;
  const int mode = d.take_one({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"});
  if (mode >= 0) o.rounding = kModes[static_cast<size_t>(mode)];
  const bool is_integral = mode >= kFirstIntegral && mode < kFirstIntegral + 4;
  o.to_integral = is_integral && is_float(to) && is_float(from);
  taken.stochastic = d.take("rs");
  o.ftz = d.take("ftz");
  o.sat = d.take("sat");
  o.relu = d.take("relu");
  o.satfinite = d.take("satfinite");
  d.expect_no_more();
  return taken;
}

// ---- packed
// ----------------------------------------------------------------------------------------

const FloatFormat* narrow_format(ScalarType type) {
  switch (type) {
    case ScalarType::kE4m3x2:
    case ScalarType::kE4m3x4:
      return &kE4m3;
    case ScalarType::kE5m2x2:
    case ScalarType::kE5m2x4:
      return &kE5m2;
    case ScalarType::kE2m3x2:
    case ScalarType::kE2m3x4:
      return &kE2m3;
    case ScalarType::kE3m2x2:
    case ScalarType::kE3m2x4:
      return &kE3m2;
    case ScalarType::kE2m1x2:
    case ScalarType::kE2m1x4:
      return &kE2m1;
    default:
      return nullptr;
  }
}

bool is_half_pair(ScalarType type) {
  return type == ScalarType::kF16x2 || type == ScalarType::kBf16x2;
}

// One lane's conversion. Operands are the bits of up to four f32, or of one packed register; random
// bits come last.
struct PackedDetail : InsnDetail {
  ScalarType to = ScalarType::kF16x2;
  ScalarType from = ScalarType::kF32;
  ConvertOptions options;
  bool stochastic = false;
  std::array<Slot, 5> sources{};
  std::array<uint32_t, 5> strides{};
  size_t count = 0;
  uint32_t target_stride = 4;
};

using Operands = std::array<uint32_t, 5>;

float as_float(uint32_t bits) { return from_bits<float>(bits); }

uint32_t floats_to_packed(const PackedDetail& p, const Operands& in) {
  const float a = as_float(in[0]);
  const float b = as_float(in[1]);
  const ConvertOptions& o = p.options;
  switch (p.to) {
    case ScalarType::kF16x2:
      return p.stochastic ? stochastic_to_f16x2(a, b, in[2], o.relu, o.satfinite)
                          : convert_to_half_x2<Fp16>(a, b, o);
    case ScalarType::kBf16x2:
      return p.stochastic ? stochastic_to_bf16x2(a, b, in[2], o.relu, o.satfinite)
                          : convert_to_half_x2<Bf16>(a, b, o);
    case ScalarType::kUe8m0x2:
      return ue8m0_x2(a, b, o.rounding, o.satfinite);
    default:
      break;
  }
  const FloatFormat& format = *narrow_format(p.to);
  if (!p.stochastic) return narrow_x2(format, a, b, o.relu);
  return stochastic_narrow_x4(format, {a, b, as_float(in[2]), as_float(in[3])}, in[4], o.relu);
}

uint32_t convert_packed(const PackedDetail& p, const Operands& in) {
  if (p.from == ScalarType::kF32) return floats_to_packed(p, in);
  if (p.to == ScalarType::kUe8m0x2) {
    return ue8m0_x2_of_bf16x2(in[0], p.options.rounding, p.options.satfinite);
  }
  if (p.from == ScalarType::kUe8m0x2) return bf16x2_of_ue8m0(in[0]);
  if (is_half_pair(p.from)) {
    const FloatFormat& format = *narrow_format(p.to);
    return p.from == ScalarType::kF16x2 ? narrow_x2_of_halves<Fp16>(format, in[0], p.options.relu)
                                        : narrow_x2_of_halves<Bf16>(format, in[0], p.options.relu);
  }
  return f16x2_of_narrow(*narrow_format(p.from), in[0], p.options.relu);
}

Step convert_packed_lanes(Warp& w, const Insn& i) {
  const auto& p = static_cast<const PackedDetail&>(*i.detail);
  std::byte* to = w.target<std::byte>(i.dst);
  for (size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    Operands in{};
    for (size_t k = 0; k < p.count; ++k) {
      std::memcpy(&in[k], w.source<std::byte>(p.sources[k]) + lane * p.strides[k], p.strides[k]);
    }
    const uint32_t result = convert_packed(p, in);
    std::memcpy(to + lane * p.target_stride, &result, p.target_stride);
  }
  return Step::kNext;
}

bool is_packed_conversion(ScalarType to, ScalarType from) {
  if (from == ScalarType::kF32) {
    return is_half_pair(to) || to == ScalarType::kUe8m0x2 || narrow_format(to) != nullptr;
  }
  if (is_half_pair(from)) {
    return narrow_format(to) != nullptr ||
           (from == ScalarType::kBf16x2 && to == ScalarType::kUe8m0x2);
  }
  if (from == ScalarType::kUe8m0x2) return to == ScalarType::kBf16x2;
  return to == ScalarType::kF16x2 && narrow_format(from) != nullptr;
}

// A register's bytes from lane to lane; .b8 registers take two.
uint32_t stride_of(const InsnDecoder& d, const Operand& operand, ScalarType type) {
  return static_cast<uint32_t>(std::max(d.register_bits(operand, type), 16) / 8);
}

void decode_packed(InsnDecoder& d, ScalarType to, ScalarType from, const TakenOptions& taken) {
  PackedDetail p;
  p.to = to;
  p.from = from;
  p.options = taken.options;
  p.stochastic = taken.stochastic;
  const auto add = [&](const Operand& operand, ScalarType type) {
    if (p.count == p.sources.size()) d.fail("too many operands");
    p.sources[p.count] = d.source(operand, type);
    p.strides[p.count] = std::min(stride_of(d, operand, type), 4u);
    ++p.count;
  };
  for (size_t i = 1; i < d.count(); ++i) {
    const Operand& operand = d.operand(i);
    if (operand.kind == OperandKind::kVector) {
      for (const Operand& part : operand.parts) add(part, from);
    } else {
      add(operand, from);
    }
  }
  const Slot target = d.target(0, to);
  p.target_stride = std::min(stride_of(d, d.operand(0), to), 4u);
  Insn& insn = d.emit(&convert_packed_lanes);
  insn.dst = target;
  d.detail<PackedDetail>(insn, p);
}

// .b types stand for the unsigned ones.
ScalarType as_number(ScalarType type) {
  switch (type) {
    case ScalarType::kB8:
      return ScalarType::kU8;
    case ScalarType::kB16:
      return ScalarType::kU16;
    case ScalarType::kB32:
      return ScalarType::kU32;
    case ScalarType::kB64:
      return ScalarType::kU64;
    default:
      return type;
  }
}

}  // namespace

void decode_cvt(InsnDecoder& d) {
  if (d.take("pack")) return decode_cvt_pack(d);
  const ScalarType to = as_number(d.expect_type());
  const ScalarType from = as_number(d.expect_type());
  const TakenOptions taken = take_options(d, to, from);
  if (is_packed_conversion(to, from)) return decode_packed(d, to, from, taken);
  const Slot source = d.source(1, from);
  const uint32_t source_stride = stride_of(d, d.operand(1), from);
  const Slot target = d.target(0, to);
  const uint32_t target_stride = stride_of(d, d.operand(0), to);
  const bool exact_widths = source_stride == static_cast<uint32_t>(bits_of(from) / 8) &&
                            target_stride == static_cast<uint32_t>(bits_of(to) / 8);
  if (exact_widths) {
    if (const Handler fast = fast_convert_handler(to, from, taken.options)) {
      Insn& insn = d.emit(fast);
      insn.dst = target;
      insn.a = source;
      return;
    }
  }
  const Handler handler = convert_handler(to, from);
  if (handler == nullptr) {
    d.fail("there is no conversion of ." + std::string(name_of(from)) + " to ." +
           std::string(name_of(to)));
  }
  Insn& insn = d.emit(handler);
  insn.dst = target;
  insn.a = source;
  auto& detail = d.detail<ConvertDetail>(insn);
  detail.options = taken.options;
  detail.source_stride = source_stride;
  detail.target_stride = target_stride;
}

}  // namespace mpfa::sim
