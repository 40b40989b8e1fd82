#include "sim/machine/trace.h"

#include <cerrno>
#include <cstring>

#include "mpfa/check.h"
#include "sim/machine/block.h"
#include "sim/ptx/print.h"

namespace mpfa::sim {

Trace::Trace(const std::string& file_name) : file_(std::fopen(file_name.c_str(), "w")) {
  if (!file_) {
    throw IoError(internal::str_cat("the trace cannot be written to ", file_name, ": ",
                                    std::strerror(errno)));
  }
}

void Trace::begin(const std::string& kernel, Dim3 grid, Dim3 block) {
  std::fprintf(file_.get(), "launch %s grid (%u, %u, %u) block (%u, %u, %u)\n", kernel.c_str(),
               grid.x, grid.y, grid.z, block.x, block.y, block.z);
}

void Trace::write(const Warp& warp, const Insn& insn) {
  const Function& function = *warp.split->frame->code->function;
  const Dim3 at = warp.block->position;
  const std::string text = insn.source < function.instructions.size()
                               ? print_instruction(function, function.instructions[insn.source])
                               : "ret;";
  std::fprintf(file_.get(), "(%u, %u, %u) warp %u 0x%08x %s\n", at.x, at.y, at.z, warp.index,
               warp.mask, text.c_str());
}

}  // namespace mpfa::sim
