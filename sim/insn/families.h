// What the families of instructions offer each other.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/machine/address.h"

namespace mpfa::sim {

// A register that holds -a.
Slot emit_negation(InsnDecoder& decoder, Slot slot, ScalarType type);
// A predicate that holds !p.
Slot emit_predicate_not(InsnDecoder& decoder, Slot predicate);
// A register that holds %tid.x and the like, read at this place.
Slot emit_special_register(InsnDecoder& decoder, const Operand& operand, int bits);
// A register that holds the address of a .shared, .local or .param variable, in its own space.
Slot emit_window_address(InsnDecoder& decoder, const AddressOperand& address, int bits);

#define INSN(opcode, decode) void decode(InsnDecoder& decoder);
#include "sim/insn/insn.def"
#undef INSN

}  // namespace mpfa::sim
