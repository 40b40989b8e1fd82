// Handlers of floating-point instructions, by operation and modifiers. Each is made for the
// instruction set that runs.
#pragma once

#include <cstdint>

#include "sim/insn/arithmetic.h"
#include "sim/insn/scalar_type.h"
#include "sim/machine/code.h"
#include "sim/numerics/rounding_mode.h"

namespace mpfa::sim {

struct FloatModifiers {
  Rounding rounding = Rounding::kNearestEven;
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool oob = false;            // of fma
  bool propagate_nan = false;  // .NaN of min and max
  bool abs = false;
  bool xorsign = false;
};

// Each gives nullptr for what does not exist. Slots: dst, a, b, c as the operation has operands.
Handler float32_handler(FloatOp op, const FloatModifiers& modifiers);           // to nearest even
Handler float32_directed_handler(FloatOp op, const FloatModifiers& modifiers);  // other modes
Handler float64_handler(FloatOp op, Rounding rounding);
// f16, bf16, f16x2, bf16x2.
Handler half_handler(FloatOp op, ScalarType type, const FloatModifiers& modifiers);
// f32x2, as two of f32.
Handler float32x2_handler(FloatOp op, const FloatModifiers& modifiers);

enum class FloatFunction : uint8_t { kRcp, kSqrt, kRsqrt, kSin, kCos, kLg2, kEx2, kTanh };

// .approx of f32, and of halves where it exists.
Handler approximate_handler(FloatFunction function, ScalarType type, bool ftz);
// div.approx, div.full.
Handler approximate_division_handler(bool full, bool ftz);

}  // namespace mpfa::sim
