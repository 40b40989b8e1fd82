// Opcodes that integers and floats share (add, mul, min, ...): which family decodes what.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/insn/scalar_type.h"

namespace mpfa::sim {

enum class IntegerOp : uint8_t {
  kAdd,
  kSub,
  kAddSat,
  kSubSat,
  kMulLo,
  kMulHi,
  kMulWide,
  kMadLo,
  kMadHi,
  kMadWide,
  kMadHiSat,
  kSad,
  kDiv,
  kRem,
  kAbs,
  kNeg,
  kMin,
  kMax,
  kMinRelu,
  kMaxRelu,
  kMul24Lo,
  kMul24Hi,
  kMad24Lo,
  kMad24Hi,
  kMad24HiSat,
};

// integer.cc; the type's modifier has been taken.
void decode_integer(InsnDecoder& decoder, IntegerOp op, ScalarType type, size_t operands);
void decode_integer_add(InsnDecoder& decoder, ScalarType type, bool subtract);
void decode_integer_mul(InsnDecoder& decoder, ScalarType type);
void decode_integer_mad(InsnDecoder& decoder, ScalarType type, bool carry_in);
Slot emit_integer_negation(InsnDecoder& decoder, Slot slot, ScalarType type);

enum class FloatOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kFma,
  kDiv,
  kAbs,
  kNeg,
  kMin,
  kMax,
  kMin3,
  kMax3,
  kRcp,
  kSqrt,
};

// float.cc; the type's modifier has been taken.
void decode_float(InsnDecoder& decoder, FloatOp op, ScalarType type);
Slot emit_float_negation(InsnDecoder& decoder, Slot slot, ScalarType type);

}  // namespace mpfa::sim
