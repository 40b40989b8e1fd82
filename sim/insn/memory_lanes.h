// ld and st at run time.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/insn/decoder.h"
#include "sim/insn/scalar_type.h"
#include "sim/machine/memory_access.h"

namespace mpfa::sim {

struct MemoryDetail : InsnDetail {
  AddressOperand address;
  MemorySpace space = MemorySpace::kGeneric;
  ScalarType type = ScalarType::kB32;
  uint32_t element_bytes = 0;
  std::vector<Slot> slots;           // an element each; kNoSlot: not wanted
  std::vector<uint32_t> slot_bytes;  // of a lane in the register
  MemoryOrder order = MemoryOrder::kWeak;

  uint32_t lane_bytes() const { return element_bytes * static_cast<uint32_t>(slots.size()); }
};

// Handlers for instructions with a MemoryDetail.
Handler load_handler();
Handler store_handler();

}  // namespace mpfa::sim
