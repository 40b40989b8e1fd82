// Declarations of variables, parameters and registers (PTX ISA, section 5).
#pragma once

#include <optional>
#include <vector>

#include "sim/ptx/module.h"
#include "sim/ptx/token_stream.h"

namespace mpfa::sim {

// The state space that a directive's name opens; nothing for any other directive.
std::optional<StateSpace> state_space_of(std::string_view directive);

// The type of that name, or nothing.
std::optional<DataType> data_type_of(std::string_view name);

// Everything after the state space, up to the semicolon: `.align 8 .v4 .f32 a[2][4] = {...}, b;`
// and `.b32 %r<10>;`, which becomes ten variables named %r0 to %r9.
std::vector<Variable> parse_variables(TokenStream& in, StateSpace space, Linkage linkage);

// `(.param .b64 .ptr .global .align 4 a, .reg .b32 b)`, with its parentheses.
std::vector<Variable> parse_parameters(TokenStream& in);

}  // namespace mpfa::sim
