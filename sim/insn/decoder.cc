#include "sim/insn/decoder.h"

#include <algorithm>
#include <bit>

#include "mpfa/check.h"
#include "sim/insn/families.h"
#include "sim/insn/function_decoder.h"
#include "sim/machine/fault.h"
#include "sim/ptx/print.h"

namespace mpfa::sim {

InsnDecoder::InsnDecoder(FunctionDecoder& function, const Instruction& instruction)
    : function_(function), instruction_(instruction), left_(instruction.modifiers) {}

// ---- modifiers
// -------------------------------------------------------------------------------------

bool InsnDecoder::take(std::string_view modifier) {
  const auto found = std::find(left_.begin(), left_.end(), modifier);
  if (found == left_.end()) return false;
  left_.erase(found);
  return true;
}

int InsnDecoder::take_one(std::initializer_list<std::string_view> choices) {
  int i = 0;
  for (const std::string_view choice : choices) {
    if (take(choice)) return i;
    ++i;
  }
  return -1;
}

std::optional<ScalarType> InsnDecoder::take_type() {
  for (auto it = left_.begin(); it != left_.end(); ++it) {
    const std::optional<ScalarType> type = scalar_type_of(*it);
    if (!type) continue;
    left_.erase(it);
    return type;
  }
  return std::nullopt;
}

ScalarType InsnDecoder::expect_type() {
  const std::optional<ScalarType> type = take_type();
  if (!type) fail("a type is missing");
  return *type;
}

std::string InsnDecoder::take_first() {
  if (left_.empty()) return {};
  std::string first = left_.front();
  left_.erase(left_.begin());
  return first;
}

void InsnDecoder::expect_no_more() {
  if (!left_.empty()) fail("the modifier ." + left_.front() + " is not known here");
}

// ---- operands
// --------------------------------------------------------------------------------------

const Operand& InsnDecoder::operand(size_t i) {
  if (i >= count()) fail("operand " + std::to_string(i + 1) + " is missing");
  return instruction_.operands[i];
}

int InsnDecoder::register_bits(const Operand& operand, ScalarType type) const {
  if (operand.kind != OperandKind::kRegister) return bits_of(type);
  return function_.function().registers[static_cast<size_t>(operand.index)].type.bits;
}

Slot InsnDecoder::constant(uint64_t bits, int width_bits) {
  return function_.constant(bits, width_bits);
}

Slot InsnDecoder::scratch(int bits) { return function_.scratch(bits); }

int64_t InsnDecoder::immediate(size_t i) {
  const Operand& value = operand(i);
  if (value.kind != OperandKind::kInteger) {
    fail("operand " + std::to_string(i + 1) + " must be a number");
  }
  return static_cast<int64_t>(value.bits);
}

Slot InsnDecoder::source(const Operand& operand, ScalarType type) {
  if (type == ScalarType::kPred) return predicate(operand);
  if (!operand.selector.empty()) fail("only video instructions take ." + operand.selector);
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const Slot slot = function_.register_slot(operand.index, operand.component);
      if (RegisterUses* uses = function_.register_uses()) uses->read(slot);
      return operand.negated ? emit_negation(*this, slot, type) : slot;
    }
    case OperandKind::kInteger:
      return constant(operand.bits, std::max(bits_of(type), 16));
    case OperandKind::kFloat32:
      return constant(operand.bits, std::max(bits_of(type), 32));
    case OperandKind::kFloat64:
      return constant(operand.bits, 64);
    case OperandKind::kSpecial:
      return emit_special_register(*this, operand, bits_of(type));
    case OperandKind::kVariable:
    case OperandKind::kFunction:
      return address_value(operand, type);
    default:
      fail("an operand that is no value");
  }
}

// A variable's or function's address as a value.
Slot InsnDecoder::address_value(const Operand& operand, ScalarType type) {
  const int bits = std::max(bits_of(type), 32);
  if (operand.kind == OperandKind::kFunction) {
    return constant(function_.function_address(operand.name), bits);
  }
  const AddressOperand at = address(operand);
  if (!at.block_relative && !at.frame_relative && !at.grid_relative) {
    return constant(static_cast<uint64_t>(at.offset), bits);
  }
  return emit_window_address(*this, at, bits);
}

Slot InsnDecoder::target(const Operand& operand, ScalarType type) {
  if (operand.kind == OperandKind::kSink) return scratch(bits_of(type));
  if (operand.kind != OperandKind::kRegister) fail("the result must be a register");
  if (!operand.selector.empty()) fail("only video instructions take ." + operand.selector);
  const Slot slot = function_.register_slot(operand.index, operand.component);
  if (RegisterUses* uses = function_.register_uses()) uses->write(slot);
  return slot;
}

Slot InsnDecoder::register_source(const Operand& operand, ScalarType type) {
  const Slot slot = source(operand, type);
  return (slot & kPoolBit) == 0 ? slot : emit_copy(*this, slot, bits_of(type));
}

Slot InsnDecoder::predicate(const Operand& operand) {
  if (operand.kind == OperandKind::kInteger) {
    return constant(operand.bits != 0 ? kAllLanes : 0, 1);
  }
  if (operand.kind != OperandKind::kRegister || register_bits(operand, ScalarType::kB32) != 1) {
    fail("an operand must be a predicate");
  }
  const Slot slot = function_.register_slot(operand.index, -1);
  return operand.negated ? emit_predicate_not(*this, slot) : slot;
}

Slot InsnDecoder::predicate_target(const Operand& operand) {
  if (operand.kind == OperandKind::kSink) return scratch(1);
  if (operand.kind != OperandKind::kRegister) fail("the result must be a predicate");
  return function_.register_slot(operand.index, -1);
}

AddressOperand InsnDecoder::address(const Operand& operand) {
  AddressOperand result;
  result.offset = operand.offset;
  const Operand& base = operand.kind == OperandKind::kAddress ? operand.parts.at(0) : operand;
  switch (base.kind) {
    case OperandKind::kRegister:
      result.base = function_.register_slot(base.index, base.component);
      if (RegisterUses* uses = function_.register_uses()) uses->read(result.base);
      result.base_bits = register_bits(base, ScalarType::kB64);
      return result;
    case OperandKind::kInteger:
      result.offset += static_cast<int64_t>(base.bits);
      return result;
    case OperandKind::kVariable:
      break;
    default:
      fail("an address that is neither register, variable nor number");
  }
  result.is_variable = true;
  const int64_t param = function_.entry_param_offset(base.name);
  if (param >= 0) {
    result.space = StateSpace::kParam;
    result.grid_relative = true;
    result.offset += param;
    return result;
  }
  const Variable* variable = function_.find_variable(base.name);
  if (variable == nullptr) fail("the variable " + base.name + " is not declared");
  result.space = variable->space;
  switch (variable->space) {
    case StateSpace::kShared:
      result.block_relative = true;
      result.offset += static_cast<int64_t>(function_.shared_offset(base.name));
      break;
    case StateSpace::kLocal:
    case StateSpace::kParam:
      result.frame_relative = true;
      result.offset += static_cast<int64_t>(function_.local_offset(base.name));
      break;
    default:
      result.offset += static_cast<int64_t>(function_.symbol_address(base.name));
  }
  return result;
}

// ---- result
// ----------------------------------------------------------------------------------------

Insn& InsnDecoder::emit_before(Handler handler) {
  std::vector<Insn>& insns = function_.code().insns;
  const auto source =
      static_cast<uint32_t>(&instruction_ - function_.function().instructions.data());
  insns.push_back({});
  insns.back().run = handler;
  insns.back().source = source;
  return insns.back();
}

Insn& InsnDecoder::emit(Handler handler) {
  Insn& insn = emit_before(handler);
  if (instruction_.guard >= 0) {
    insn.guard = function_.register_slot(instruction_.guard, -1);
    insn.guard_negated = instruction_.guard_negated;
  }
  return insn;
}

void InsnDecoder::keep(std::unique_ptr<InsnDetail> detail) {
  function_.code().details.push_back(std::move(detail));
}

void InsnDecoder::fail(const std::string& message) const {
  throw Fault(FaultKind::kIllegalInstruction,
              internal::str_cat(
                  "in ", function_.function().name, ", PTX line ", instruction_.ptx_line, ": ",
                  print_instruction(function_.function(), instruction_), "\n  ", message));
}

}  // namespace mpfa::sim
