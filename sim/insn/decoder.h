// PTX instructions to executable form: what the families of instructions decode with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/insn/scalar_type.h"
#include "sim/machine/code.h"
#include "sim/ptx/module.h"

namespace mpfa::sim {

class FunctionDecoder;

// An address operand: [register + offset], [variable + offset], [number].
struct AddressOperand {
  Slot base = kNoSlot;          // of 32 lanes; kNoSlot: the offset alone
  int base_bits = 64;           // 32 or 64
  int64_t offset = 0;           // a global, constant or param variable's address is in it
  bool block_relative = false;  // a .shared variable: add the block's window
  bool frame_relative = false;  // a .local or .param variable: add the frame's local base
  bool grid_relative = false;   // a kernel's parameter: add the parameter buffer's address
  StateSpace space = StateSpace::kGlobal;  // of the variable, if it is one
  bool is_variable = false;
};

// One instruction while it is decoded. A family's decode function takes the modifiers that it
// knows, names its operands' places, and emits; what it does not take is an error.
class InsnDecoder {
 public:
  InsnDecoder(FunctionDecoder& function, const Instruction& instruction);

  const Instruction& instruction() const { return instruction_; }
  FunctionDecoder& function() { return function_; }

  // ---- modifiers ----
  // Takes `modifier` if it is there.
  bool take(std::string_view modifier);
  // Takes the one of `choices` that is there; -1 if none is.
  int take_one(std::initializer_list<std::string_view> choices);
  // Takes the first modifier that is left and names a type.
  std::optional<ScalarType> take_type();
  ScalarType expect_type();
  // The first modifier that is left, whatever it is; empty if none is.
  std::string take_first();
  // The modifiers that are left.
  const std::vector<std::string>& left() const { return left_; }
  // Fails if modifiers are left.
  void expect_no_more();

  // ---- operands ----
  size_t count() const { return instruction_.operands.size(); }
  const Operand& operand(size_t i);
  // Bits of the register an operand names; `type`'s for anything else.
  int register_bits(const Operand& operand, ScalarType type) const;
  // Where a value to be read lies. Numbers go to the pool as `type`; special registers, addresses
  // of variables and negations are computed into a register of their own, before this instruction.
  Slot source(const Operand& operand, ScalarType type);
  Slot source(size_t i, ScalarType type) { return source(operand(i), type); }
  // Where a value to be written lies; `_` gets a register that no one reads.
  Slot target(const Operand& operand, ScalarType type);
  Slot target(size_t i, ScalarType type) { return target(operand(i), type); }
  // As source(), in a register of its own if the operand is none: for what reads frames directly.
  Slot register_source(const Operand& operand, ScalarType type);
  // A predicate, !p computed before.
  Slot predicate(const Operand& operand);
  Slot predicate_target(const Operand& operand);
  AddressOperand address(const Operand& operand);
  AddressOperand address(size_t i) { return address(operand(i)); }
  // 32 lanes of the same bits in the pool.
  Slot constant(uint64_t bits, int width_bits);
  // A register of the decoder's own.
  Slot scratch(int bits);
  // The immediate that the operand must be.
  int64_t immediate(size_t i);

  // ---- result ----
  // The instruction; guarded as the source is.
  Insn& emit(Handler handler);
  // An instruction before it without a guard.
  Insn& emit_before(Handler handler);
  template <class Detail, class... Args>
  Detail& detail(Insn& insn, Args&&... args) {
    auto made = std::make_unique<Detail>(std::forward<Args>(args)...);
    Detail& result = *made;
    insn.detail = made.get();
    keep(std::move(made));
    return result;
  }

  [[noreturn]] void fail(const std::string& message) const;

 private:
  void keep(std::unique_ptr<InsnDetail> detail);
  Slot address_value(const Operand& operand, ScalarType type);

  FunctionDecoder& function_;
  const Instruction& instruction_;
  std::vector<std::string> left_;
};

using DecodeFunction = void (*)(InsnDecoder& decoder);

// The row of insn.def for `opcode`; nullptr if there is none.
DecodeFunction find_decode_function(std::string_view opcode);
// All opcodes of insn.def.
std::vector<std::string_view> known_opcodes();

}  // namespace mpfa::sim
