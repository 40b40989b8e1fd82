// What compare.cc's handlers are chosen by.
#pragma once

#include <cstdint>

namespace mpfa::sim {

// In the order of their modifiers.
enum class Comparison : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};

enum class BoolOp : uint8_t { kNone, kAnd, kOr, kXor };

}  // namespace mpfa::sim
