// The names that a function's body sees.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/ptx/module.h"

namespace mpfa::sim {

// What a declared name stands for.
struct Declared {
  enum class Kind : uint8_t { kRegister, kVariable, kFunction, kTargets, kPrototype };
  Kind kind = Kind::kVariable;
  int64_t index = -1;       // of a register or a list of targets
  std::string unique_name;  // of a variable, function or prototype
};

// Nested blocks: a name means its innermost declaration.
class Scopes {
 public:
  Scopes() { open(); }
  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }

  // Returns false if the innermost block has the name already.
  bool declare(const std::string& name, Declared declared) {
    return scopes_.back().emplace(name, std::move(declared)).second;
  }
  const Declared* find(const std::string& name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i].find(name);
      if (found != scopes_[i].end()) return &found->second;
    }
    return nullptr;
  }

 private:
  std::vector<std::unordered_map<std::string, Declared>> scopes_;
};

}  // namespace mpfa::sim
