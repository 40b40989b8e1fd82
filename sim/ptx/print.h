// Instructions back to text, for traces and reports.
#pragma once

#include <string>

#include "sim/ptx/module.h"

namespace mpfa::sim {

// "@%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];". Names are those of the source, numbers decimal.
std::string print_instruction(const Function& function, const Instruction& instruction);

}  // namespace mpfa::sim
