// The conversions that kernels do in their inner loops.
#include "sim/insn/targets.h"
#define HWY_TARGET_INCLUDE "sim/insn/convert_fast.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "mpfa/formats.h"
#include "sim/insn/convert_handlers.h"
#include "sim/insn/lanes-inl.h"
#include "sim/numerics/convert.h"

HWY_BEFORE_NAMESPACE();
namespace mpfa::sim::HWY_NAMESPACE {
namespace {

template <class To, ConvertOptions kOptions = ConvertOptions{}>
struct Convert {
  template <class From>
  HWY_INLINE static To run(From a) {
    return convert<To>(a, kOptions);
  }
};

constexpr ConvertOptions kTruncated = {.rounding = Rounding::kZero};

// Registers of f16 and bf16 are 16 bits.
template <class H>
struct ToHalf {
  HWY_INLINE static uint16_t run(float a) { return convert<H>(a, ConvertOptions{}).bits; }
};
template <class H>
struct OfHalf {
  HWY_INLINE static float run(uint16_t a) { return convert<float>(H{a}, ConvertOptions{}); }
};

Handler between_integers(ScalarType to, ScalarType from) {
  const bool sign = is_signed(from);
  switch (bits_of(to) * 100 + bits_of(from)) {
    case 6432:
      return sign ? &unary<Convert<uint64_t>, uint64_t, int32_t>
                  : &unary<Convert<uint64_t>, uint64_t, uint32_t>;
    case 3264:
      return &unary<Convert<uint32_t>, uint32_t, uint64_t>;
    case 3216:
      return sign ? &unary<Convert<uint32_t>, uint32_t, int16_t>
                  : &unary<Convert<uint32_t>, uint32_t, uint16_t>;
    case 1632:
      return &unary<Convert<uint16_t>, uint16_t, uint32_t>;
    case 6416:
      return sign ? &unary<Convert<uint64_t>, uint64_t, int16_t>
                  : &unary<Convert<uint64_t>, uint64_t, uint16_t>;
    case 1664:
      return &unary<Convert<uint16_t>, uint16_t, uint64_t>;
    default:
      return nullptr;
  }
}

Handler to_float32(ScalarType from) {
  switch (from) {
    case ScalarType::kS32:
      return &unary<Convert<float>, float, int32_t>;
    case ScalarType::kU32:
      return &unary<Convert<float>, float, uint32_t>;
    case ScalarType::kF16:
      return &unary<OfHalf<Fp16>, float, uint16_t>;
    case ScalarType::kBf16:
      return &unary<OfHalf<Bf16>, float, uint16_t>;
    case ScalarType::kF64:
      return &unary<Convert<float>, float, double>;
    default:
      return nullptr;
  }
}

Handler from_float32(ScalarType to, Rounding rounding) {
  if (rounding == Rounding::kZero) {
    if (to == ScalarType::kS32) return &unary<Convert<int32_t, kTruncated>, int32_t, float>;
    return to == ScalarType::kU32 ? &unary<Convert<uint32_t, kTruncated>, uint32_t, float>
                                  : nullptr;
  }
  if (rounding != Rounding::kNearestEven) return nullptr;
  switch (to) {
    case ScalarType::kS32:
      return &unary<Convert<int32_t>, int32_t, float>;
    case ScalarType::kF16:
      return &unary<ToHalf<Fp16>, uint16_t, float>;
    case ScalarType::kBf16:
      return &unary<ToHalf<Bf16>, uint16_t, float>;
    case ScalarType::kF64:
      return &unary<Convert<double>, double, float>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler fast_convert(ScalarType to, ScalarType from, const ConvertOptions& o) {
  if (o.ftz || o.sat || o.relu || o.satfinite || o.to_integral) return nullptr;
  if (!is_float(to) && !is_float(from)) return between_integers(to, from);
  if (from == ScalarType::kF32) return from_float32(to, o.rounding);
  if (to == ScalarType::kF32 && o.rounding == Rounding::kNearestEven) return to_float32(from);
  return nullptr;
}

}  // namespace mpfa::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mpfa::sim {

HWY_EXPORT(fast_convert);

Handler fast_convert_handler(ScalarType to, ScalarType from, const ConvertOptions& options) {
  return HWY_DYNAMIC_DISPATCH(fast_convert)(to, from, options);
}

}  // namespace mpfa::sim
#endif  // HWY_ONCE
