// Who started an operation that ends later: what messages name when it goes wrong then.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sim/machine/warp.h"

namespace mpfa::sim {

struct AsyncStart;
using AsyncHandle = std::shared_ptr<AsyncStart>;

struct Issuer {
  Warp* warp = nullptr;
  const Insn* insn = nullptr;
  const FunctionCode* code = nullptr;  // that the instruction belongs to
  uint32_t lanes = 0;
  AsyncHandle operation =
      nullptr;  // that it has started, for the checks; nullptr: none, or no checks

  // Of the running instruction.
  static Issuer of(Warp& warp, const Insn& insn, uint32_t lanes);

  [[noreturn]] void fail(FaultKind kind, const std::string& message) const;
};

}  // namespace mpfa::sim
