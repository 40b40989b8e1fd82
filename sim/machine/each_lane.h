// Loops over the lanes of a mask, for what is done lane by lane.
#pragma once

#include <bit>
#include <cstdint>

#include "sim/machine/code.h"

namespace mpfa::sim {

// Calls of(lane) for every lane of `mask`, the lowest first.
template <class F>
void for_each_lane(uint32_t mask, F of) {
  for (; mask != 0; mask &= mask - 1) of(std::countr_zero(mask));
}

}  // namespace mpfa::sim
