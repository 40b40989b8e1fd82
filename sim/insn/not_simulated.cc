// What the simulator has no hardware for: textures, surfaces and NVLink multicast.
#include <string>

#include "sim/insn/decoder.h"
#include "sim/insn/families.h"

namespace mpfa::sim {

void decode_texture(InsnDecoder& d) {
  d.fail(d.instruction().opcode + ": textures and surfaces are not simulated");
}

void decode_multimem(InsnDecoder& d) {
  d.fail("multimem: multicast addresses of several GPUs are not simulated");
}

}  // namespace mpfa::sim
