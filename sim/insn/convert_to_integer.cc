#include "sim/insn/convert_lanes.h"

namespace mpfa::sim {

Handler convert_to_integer_handler(ScalarType to, ScalarType from) {
  switch (to) {
    case ScalarType::kU8:
      return convert_from<uint8_t>(from);
    case ScalarType::kS8:
      return convert_from<int8_t>(from);
    case ScalarType::kU16:
      return convert_from<uint16_t>(from);
    case ScalarType::kS16:
      return convert_from<int16_t>(from);
    case ScalarType::kU32:
      return convert_from<uint32_t>(from);
    case ScalarType::kS32:
      return convert_from<int32_t>(from);
    case ScalarType::kU64:
      return convert_from<uint64_t>(from);
    case ScalarType::kS64:
      return convert_from<int64_t>(from);
    default:
      return nullptr;
  }
}

}  // namespace mpfa::sim
