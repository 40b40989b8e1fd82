// Kernels that end in a fault.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sim/machine/fault.h"

namespace mpfa::sim {

// Fails unless fn() throws a Fault of that kind whose message has `part`.
template <typename Fn>
void expect_fault(FaultKind kind, const std::string& part, const Fn& fn) {
  try {
    fn();
    ADD_FAILURE() << "no fault: " << part;
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), kind) << fault.what();
    EXPECT_NE(std::string(fault.what()).find(part), std::string::npos) << fault.what();
  }
}

}  // namespace mpfa::sim
