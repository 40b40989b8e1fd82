#include "sim/machine/issuer.h"

namespace mpfa::sim {

Issuer Issuer::of(Warp& warp, const Insn& insn, uint32_t lanes) {
  return {.warp = &warp,
          .insn = &insn,
          .code = warp.split->frame->code,
          .lanes = lanes,
          .operation = nullptr};
}

void Issuer::fail(FaultKind kind, const std::string& message) const {
  // The warp has gone on, or ended: it is put back for the text.
  Frame frame;
  frame.code = code;
  Split then;
  then.frame = &frame;
  Split* now = warp->split;
  warp->split = &then;
  const std::string place = warp->where(*insn, lanes);
  warp->split = now;
  throw Fault(kind, message + "\n  " + place);
}

}  // namespace mpfa::sim
