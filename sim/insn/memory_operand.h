// Address operands at run time, and the modifiers of memory instructions.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/machine/memory_access.h"

namespace mpfa::sim {

// Each lane's address.
void lane_addresses(const Warp& warp, const AddressOperand& operand, uint64_t* addresses);

// Takes .global, .shared::cluster and the like; kGeneric if none is there. A variable as operand
// decides where the source says nothing but .param.
MemorySpace take_space(InsnDecoder& decoder, const AddressOperand& operand);

// The memory order that the modifiers which are left say.
MemoryOrder order_of(const InsnDecoder& decoder);

// Takes what changes no result here: .volatile, .relaxed and the like with their scopes, cache
// operators, eviction priorities, prefetch sizes. True if the access is one that other threads may
// wait for (anything but weak).
bool take_cache_and_order(InsnDecoder& decoder);

}  // namespace mpfa::sim
