// One function's header and body.
#pragma once

#include "sim/ptx/module.h"
#include "sim/ptx/scope.h"
#include "sim/ptx/token_stream.h"

namespace mpfa::sim {

// Reads on behind `.entry` or `.func`: a declaration up to its semicolon, or a definition with its
// body. `globals` has the module's names; the function's own is added before the body is read.
Function parse_function(TokenStream& in, bool is_entry, Linkage linkage, Scopes& globals);

}  // namespace mpfa::sim
