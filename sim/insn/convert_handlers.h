// Handlers of cvt between scalar types.
#pragma once

#include <cstdint>

#include "sim/insn/scalar_type.h"
#include "sim/machine/code.h"
#include "sim/numerics/convert.h"

namespace mpfa::sim {

// What a conversion needs at run time, where its options are not part of the handler.
struct ConvertDetail : InsnDetail {
  ConvertOptions options;
  uint32_t source_stride = 0;  // bytes from lane to lane: registers may be wider than the type
  uint32_t target_stride = 0;
};

// Any pair of types and all options; nullptr if there is no such conversion. The instruction has a
// ConvertDetail. A result narrower than its register is extended as its type is signed or not.
Handler convert_handler(ScalarType to, ScalarType from);

// The frequent ones as loops that vectorise, for registers of the types' own widths; nullptr if
// this is none of them. No detail.
Handler fast_convert_handler(ScalarType to, ScalarType from, const ConvertOptions& options);

// Parts of convert_handler, a file each: by the result's type.
Handler convert_to_integer_handler(ScalarType to, ScalarType from);
Handler convert_to_float_handler(ScalarType to, ScalarType from);

}  // namespace mpfa::sim
