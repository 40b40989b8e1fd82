// Notes, while a function is decoded, which registers its instructions read and write, for the
// checks of those that wgmma uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/machine/register_watch.h"

namespace mpfa::sim {

class RegisterUses {
 public:
  void read(Slot slot) { add(slot, RegisterUseKind::kRead); }
  void write(Slot slot) { add(slot, RegisterUseKind::kWrite); }
  // The instruction is a wgmma that uses these and no others that matter.
  void wgmma(const std::vector<Slot>& accumulators, const std::vector<Slot>& fragments);
  // The PTX instruction that the notes were of ends; the functions' instructions are `insn_count`.
  void end_instruction(size_t insn_count, bool is_copy);
  // What matters of it. `name` is a register's.
  std::shared_ptr<const WatchedRegisters> finish(
      size_t insn_count, const std::function<std::string(Slot)>& name) const;

 private:
  struct Use {
    Slot slot;
    RegisterUseKind kind;
  };
  struct Noted {
    size_t insn;  // the last one of the PTX instruction
    size_t first;
    size_t end;  // of uses_
  };

  void add(Slot slot, RegisterUseKind kind);

  std::vector<Use> uses_;
  std::vector<Noted> instructions_;
  size_t first_ = 0;  // of the instruction that is being decoded
};

}  // namespace mpfa::sim
