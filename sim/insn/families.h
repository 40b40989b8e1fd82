// What the families of instructions offer each other.
#pragma once

#include <cstdint>

#include "sim/insn/decoder.h"
#include "sim/machine/address.h"

namespace mpfa::sim {

// A register that holds -a.
Slot emit_negation(InsnDecoder& decoder, Slot slot, ScalarType type);
// A register that holds what `slot`, of the pool, does.
Slot emit_copy(InsnDecoder& decoder, Slot slot, int bits);
// A predicate that holds !p.
Slot emit_predicate_not(InsnDecoder& decoder, Slot predicate);
// A register that holds %tid.x and the like, read at this place.
Slot emit_special_register(InsnDecoder& decoder, const Operand& operand, int bits);
// A register that holds the address of a .shared, .local or .param variable, in its own space.
Slot emit_window_address(InsnDecoder& decoder, const AddressOperand& address, int bits);

// convert_pack.cc: cvt.pack; .pack has been taken.
void decode_cvt_pack(InsnDecoder& decoder);

// st.async, st.bulk and red.async, with these modifiers taken (async_store.cc).
void decode_st_async(InsnDecoder& decoder);
void decode_st_bulk(InsnDecoder& decoder);
void decode_red_async(InsnDecoder& decoder);

#define INSN(opcode, decode) void decode(InsnDecoder& decoder);
#include "sim/insn/insn.def"
#undef INSN

}  // namespace mpfa::sim
