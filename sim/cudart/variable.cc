#include "sim/cudart/variable.h"

#include <map>
#include <utility>

#include "sim/cudart/api.h"
#include "sim/cudart/module.h"

namespace mpfa::sim::cudart {
namespace {

std::map<const void*, HostVariable>& variables() {
  static auto& all = *new std::map<const void*, HostVariable>;
  return all;
}

const HostVariable* find(const void* shadow) {
  const auto found = variables().find(shadow);
  if (found != variables().end()) return &found->second;
  // In host code a managed variable's name stands for the variable itself.
  for (const auto& [_, variable] : variables()) {
    if (variable.managed != nullptr && *variable.managed == shadow) return &variable;
  }
  return nullptr;
}

}  // namespace

void register_variable(const void* shadow, HostVariable variable) {
  variables().emplace(shadow, std::move(variable));
}

void forget_variables(const Module& module) {
  std::erase_if(variables(),
                [&module](const auto& entry) { return entry.second.module.get() == &module; });
}

Symbol find_variable(const void* shadow) {
  const HostVariable* variable = shadow == nullptr ? nullptr : find(shadow);
  require(variable != nullptr, cudaErrorInvalidSymbol, "no device variable was registered at ",
          shadow);
  const Symbol symbol = variable->module->program().find_symbol(variable->name);
  require(symbol.bytes != 0, cudaErrorInvalidSymbol, "the device code has no variable ",
          variable->name);
  return symbol;
}

}  // namespace mpfa::sim::cudart
