// Device variables that the program names by the address of their shadow on the host.
#pragma once

#include <memory>
#include <string>

#include "sim/machine/gpu.h"

namespace mpfa::sim::cudart {

class Module;

struct HostVariable {
  std::shared_ptr<Module> module;
  std::string name;
  void** managed = nullptr;  // of a __managed__ variable: where the host keeps its address
};

void register_variable(const void* shadow, HostVariable variable);
// Forgets all variables of a module.
void forget_variables(const Module& module);

// Where the variable is, its module loaded if it was not. Throws ApiError if `shadow` is none.
Symbol find_variable(const void* shadow);

}  // namespace mpfa::sim::cudart
