// What bits.cc's handlers are chosen by.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"

namespace mpfa::sim {

enum class BitOp : uint8_t {
  kAnd,
  kOr,
  kXor,
  kNot,
  kCnot,
  kShl,
  kShr,
  kFunnel,
  kPopc,
  kClz,
  kBfind,
  kBrev,
  kBfe,
  kBfi,
  kBmsk,
  kSzext,
  kFns,
  kPrmt,
  kLop3,
};

// compare.cc: p = (word != 0).
void emit_not_zero(InsnDecoder& decoder, Slot predicate, Slot word);

}  // namespace mpfa::sim
