// Constant expressions (PTX ISA, section 4.5.5).
#pragma once

#include <cstdint>

#include "sim/ptx/token_stream.h"

namespace mpfa::sim {

// Reads an integer expression: literals, unary + - ! ~, casts (.s64) and (.u64), and binary
// operators with C's precedence, down to ?:. Arithmetic is 64-bit; division by zero is an error.
uint64_t parse_integer_expression(TokenStream& in);

}  // namespace mpfa::sim
