// The loop of a conversion whose options and strides are known at run time.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mpfa/formats.h"
#include "sim/insn/convert_handlers.h"
#include "sim/machine/warp.h"
#include "sim/numerics/convert.h"

namespace mpfa::sim {

template <class To, class From>
Step convert_lanes(Warp& w, const Insn& i) {
  const auto& detail = static_cast<const ConvertDetail&>(*i.detail);
  const std::byte* from = w.source<std::byte>(i.a);
  std::byte* to = w.target<std::byte>(i.dst);
  for (size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    From value;
    std::memcpy(&value, from + lane * detail.source_stride, sizeof(From));
    const To result = convert<To>(value, detail.options);
    // Extended to the register's width, whatever that is.
    uint64_t bits = 0;
    if constexpr (std::is_integral_v<To>) {
      bits = static_cast<uint64_t>(static_cast<int64_t>(result));
      if (!std::is_signed_v<To> && sizeof(To) < 8) bits = static_cast<uint64_t>(result);
    } else {
      std::memcpy(&bits, &result, sizeof(To));
    }
    std::memcpy(to + lane * detail.target_stride, &bits, detail.target_stride);
  }
  return Step::kNext;
}

// For integer and float sources alike.
template <class To>
Handler convert_from_integer(ScalarType from) {
  switch (from) {
    case ScalarType::kU8:
      return &convert_lanes<To, uint8_t>;
    case ScalarType::kS8:
      return &convert_lanes<To, int8_t>;
    case ScalarType::kU16:
      return &convert_lanes<To, uint16_t>;
    case ScalarType::kS16:
      return &convert_lanes<To, int16_t>;
    case ScalarType::kU32:
      return &convert_lanes<To, uint32_t>;
    case ScalarType::kS32:
      return &convert_lanes<To, int32_t>;
    case ScalarType::kU64:
      return &convert_lanes<To, uint64_t>;
    case ScalarType::kS64:
      return &convert_lanes<To, int64_t>;
    default:
      return nullptr;
  }
}

template <class To>
Handler convert_from_float(ScalarType from) {
  switch (from) {
    case ScalarType::kF16:
      return &convert_lanes<To, Fp16>;
    case ScalarType::kBf16:
      return &convert_lanes<To, Bf16>;
    case ScalarType::kF32:
      return &convert_lanes<To, float>;
    case ScalarType::kF64:
      return &convert_lanes<To, double>;
    default:
      return nullptr;
  }
}

template <class To>
Handler convert_from(ScalarType from) {
  return is_float(from) ? convert_from_float<To>(from) : convert_from_integer<To>(from);
}

}  // namespace mpfa::sim
