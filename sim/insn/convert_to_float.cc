#include "sim/insn/convert_lanes.h"

namespace mpfa::sim {

Handler convert_to_float_handler(ScalarType to, ScalarType from) {
  switch (to) {
    case ScalarType::kF16:
      return convert_from<Fp16>(from);
    case ScalarType::kBf16:
      return convert_from<Bf16>(from);
    case ScalarType::kF32:
      return convert_from<float>(from);
    case ScalarType::kF64:
      return convert_from<double>(from);
    case ScalarType::kTf32:
      return from == ScalarType::kF32 ? &convert_lanes<Tf32, float> : nullptr;
    default:
      return nullptr;
  }
}

Handler convert_handler(ScalarType to, ScalarType from) {
  return is_float(to) ? convert_to_float_handler(to, from) : convert_to_integer_handler(to, from);
}

}  // namespace mpfa::sim
