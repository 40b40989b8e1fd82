// What a kernel that must fail says.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "sim/machine/fault.h"

namespace mpfa::sim::testing {

// The message of the fault of `kind` that `run` must end with.
template <class F>
std::string fault_of(FaultKind kind, F run) {
  try {
    run();
  } catch (const Fault& fault) {
    EXPECT_EQ(static_cast<int>(fault.kind()), static_cast<int>(kind)) << fault.what();
    return fault.what();
  }
  ADD_FAILURE() << "no fault";
  return "";
}

// Likewise where it takes the right seed: the first of `run(seed)` for some seeds.
template <class F>
std::string fault_of_some_seed(FaultKind kind, F run) {
  constexpr uint64_t kSeeds = 32;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    try {
      run(seed);
    } catch (const Fault& fault) {
      EXPECT_EQ(static_cast<int>(fault.kind()), static_cast<int>(kind)) << fault.what();
      return fault.what();
    }
  }
  ADD_FAILURE() << "no fault";
  return "";
}

}  // namespace mpfa::sim::testing
