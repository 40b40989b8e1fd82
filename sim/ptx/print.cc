#include "sim/ptx/print.h"

#include <cinttypes>
#include <cstdio>

namespace mpfa::sim {
namespace {

// Without the number that makes a name of a block its function's own.
std::string source_name(const std::string& name) { return name.substr(0, name.find('#')); }

std::string hexadecimal(const char* prefix, int digits, uint64_t bits) {
  char text[24];
  std::snprintf(text, sizeof(text), "%s%0*" PRIX64, prefix, digits, bits);
  return text;
}

std::string print_operand(const Function& function, const Operand& operand);

std::string join(const Function& function, const std::vector<Operand>& parts,
                 const char* separator) {
  std::string text;
  for (const Operand& part : parts) {
    if (!text.empty()) text += separator;
    text += print_operand(function, part);
  }
  return text;
}

std::string with_offset(const std::string& base, int64_t offset) {
  return offset == 0 ? base : base + "+" + std::to_string(offset);
}

std::string print_address(const Function& function, const Operand& address) {
  std::string text = "[" + with_offset(print_operand(function, address.parts[0]), address.offset);
  for (size_t i = 1; i < address.parts.size(); ++i) {
    text += ", " + print_operand(function, address.parts[i]);
  }
  return text + "]";
}

std::string print_plain(const Function& function, const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::kRegister:
      return function.registers[static_cast<size_t>(operand.index)].name;
    case OperandKind::kInteger:
      return std::to_string(static_cast<int64_t>(operand.bits));
    case OperandKind::kFloat32:
      return hexadecimal("0f", 8, operand.bits);
    case OperandKind::kFloat64:
      return hexadecimal("0d", 16, operand.bits);
    case OperandKind::kVariable:
      return with_offset(source_name(operand.name), operand.offset);
    case OperandKind::kAddress:
      return print_address(function, operand);
    case OperandKind::kVector:
      return "{" + join(function, operand.parts, ", ") + "}";
    case OperandKind::kList:
      return "(" + join(function, operand.parts, ", ") + ")";
    case OperandKind::kPair:
      return join(function, operand.parts, "|");
    case OperandKind::kSink:
      return "_";
    default:
      return operand.name;
  }
}

std::string print_operand(const Function& function, const Operand& operand) {
  std::string text = print_plain(function, operand);
  if (operand.component >= 0) text += std::string(".") + "xyzw"[operand.component];
  if (!operand.selector.empty()) text += "." + operand.selector;
  const bool is_number = operand.kind == OperandKind::kRegister &&
                         function.registers[static_cast<size_t>(operand.index)].type.bits > 1;
  return operand.negated ? (is_number ? "-" : "!") + text : text;
}

}  // namespace

std::string print_instruction(const Function& function, const Instruction& instruction) {
  std::string text;
  if (instruction.guard >= 0) {
    text += instruction.guard_negated ? "@!" : "@";
    text += function.registers[static_cast<size_t>(instruction.guard)].name + " ";
  }
  text += instruction.full_name();
  if (!instruction.operands.empty()) text += " " + join(function, instruction.operands, ", ");
  return text + ";";
}

}  // namespace mpfa::sim
