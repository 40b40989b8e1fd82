// Address operands at run time, and the modifiers of memory instructions.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/machine/block.h"
#include "sim/machine/memory_access.h"

namespace mpfa::sim {

// Each lane's address. Always part of its caller, for whose instruction set it is compiled then.
[[gnu::always_inline]] inline void lane_addresses(const Warp& warp, const AddressOperand& operand,
                                                  uint64_t* addresses) {
  auto base = static_cast<uint64_t>(operand.offset);
  if (operand.block_relative) base += warp.block->shared_base();
  if (operand.frame_relative) base += warp.split->frame->local_base;
  if (operand.grid_relative) base += warp.block->grid->params;
  if (operand.base == kNoSlot) {
    for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = base;
  } else if (operand.base_bits == 64) {
    const auto* from = warp.source<uint64_t>(operand.base);
    for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = from[lane] + base;
  } else {
    const auto* from = warp.source<uint32_t>(operand.base);
    const auto low = static_cast<uint32_t>(base);
    for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = from[lane] + low;
  }
}

// Takes .global, .shared::cluster and the like; kGeneric if none is there. A variable as operand
// decides where the source says nothing but .param.
MemorySpace take_space(InsnDecoder& decoder, const AddressOperand& operand);

// The memory order that the modifiers which are left say.
MemoryOrder order_of(const InsnDecoder& decoder);

// Takes what changes no result here: .volatile, .relaxed and the like with their scopes, cache
// operators, eviction priorities, prefetch sizes.
void take_cache_and_order(InsnDecoder& decoder);

// Takes .v2, .v4 or .v8: the number of elements, 1 if none is there.
int take_vector_size(InsnDecoder& decoder);

}  // namespace mpfa::sim
