// Whether an instruction's registers are as wide as its type says.
#pragma once

#include "sim/insn/decoder.h"

namespace mpfa::sim {

// Fails for a register that is narrower or wider than the instruction's type allows: reading it
// would take a neighbour's bits. Opcodes whose operands follow rules of their own are not looked
// at.
void check_operand_widths(InsnDecoder& decoder);

}  // namespace mpfa::sim
