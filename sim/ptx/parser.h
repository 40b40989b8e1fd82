// PTX text to a Module (PTX ISA 9.0).
#pragma once

#include <string_view>

#include "sim/ptx/lexer.h"
#include "sim/ptx/module.h"

namespace mpfa::sim {

// Reads a whole PTX source: every directive that nvcc 13.0 emits, every instruction as opcode,
// modifiers and operands with all names resolved. Which instructions exist is not known here.
//
// Debug sections are skipped; .file and .loc are kept. Throws PtxError, with the line and its text,
// for what cannot be read: syntax, a name that is not declared, a directive that is not known.
Module parse_ptx(std::string_view source);

}  // namespace mpfa::sim
