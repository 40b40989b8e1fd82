#include "sim/insn/operand_width.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace mpfa::sim {
namespace {

// The operands [begin, end) of which all must have the instruction's one type, by size: PTX ISA,
// "Type Checking": untyped bits agree with any type of the same size.
struct SameType {
  std::string_view opcode;
  size_t begin = 0;
  size_t end = std::numeric_limits<size_t>::max();
};
constexpr std::array kSameType = {
    SameType{"abs"},        SameType{"add"},       SameType{"addc"},       SameType{"and"},
    SameType{"cnot"},       SameType{"cos"},       SameType{"div"},        SameType{"ex2"},
    SameType{"fma"},        SameType{"lg2"},       SameType{"lop3", 0, 4}, SameType{"mad"},
    SameType{"madc"},       SameType{"max"},       SameType{"min"},        SameType{"mov"},
    SameType{"mul"},        SameType{"neg"},       SameType{"not"},        SameType{"or"},
    SameType{"rcp"},        SameType{"rem"},       SameType{"rsqrt"},      SameType{"selp", 0, 3},
    SameType{"setp", 1, 3}, SameType{"shl", 0, 2}, SameType{"shr", 0, 2},  SameType{"sin"},
    SameType{"sqrt"},       SameType{"sub"},       SameType{"subc"},       SameType{"tanh"},
    SameType{"xor"}};

std::vector<ScalarType> types_of(const InsnDecoder& decoder) {
  std::vector<ScalarType> types;
  for (const std::string& modifier : decoder.left()) {
    if (const auto type = scalar_type_of(modifier)) types.push_back(*type);
  }
  return types;
}

bool has_modifier(const InsnDecoder& decoder, std::string_view modifier) {
  const std::vector<std::string>& left = decoder.left();
  return std::find(left.begin(), left.end(), modifier) != left.end();
}

[[noreturn]] void fail_width(const InsnDecoder& decoder, int bits, ScalarType type) {
  decoder.fail("arguments mismatch: a register of " + std::to_string(bits) + " bits for ." +
               std::string(name_of(type)));
}

bool is_plain_register(const Operand& operand) {
  return operand.kind == OperandKind::kRegister && operand.selector.empty();
}

void check_same(const InsnDecoder& decoder, const Operand& operand, ScalarType type) {
  if (!is_plain_register(operand)) return;
  const int bits = decoder.register_bits(operand, type);
  if (bits != bits_of(type)) fail_width(decoder, bits, type);
}

// PTX ISA, "Operand Size Exceeding Instruction-Type Size": ld, st and cvt take wider registers.
void check_not_narrower(const InsnDecoder& decoder, const Operand& operand, ScalarType type) {
  for (const Operand& part : operand.parts) check_not_narrower(decoder, part, type);
  if (!is_plain_register(operand)) return;
  const int bits = decoder.register_bits(operand, type);
  if (bits < bits_of(type)) fail_width(decoder, bits, type);
}

}  // namespace

void check_operand_widths(InsnDecoder& decoder) {
  const std::string& opcode = decoder.instruction().opcode;
  const std::vector<ScalarType> types = types_of(decoder);
  const bool is_load = opcode == "ld" || opcode == "ldu";
  const bool is_store = opcode == "st" && !has_modifier(decoder, "async");
  if (types.size() == 1 && (is_load || is_store)) {
    const size_t value = is_load ? 0 : 1;
    if (decoder.count() > value) check_not_narrower(decoder, decoder.operand(value), types[0]);
    return;
  }
  if (types.size() == 2 && opcode == "cvt" && decoder.count() == 2) {
    check_not_narrower(decoder, decoder.operand(0), types[0]);
    check_not_narrower(decoder, decoder.operand(1), types[1]);
    return;
  }
  // Instructions of two types mix them; .wide results are of twice the type.
  if (types.size() != 1 || has_modifier(decoder, "wide")) return;
  const auto* const row = std::find_if(kSameType.begin(), kSameType.end(),
                                       [&](const SameType& each) { return each.opcode == opcode; });
  if (row == kSameType.end()) return;
  for (size_t i = row->begin; i < std::min(row->end, decoder.count()); ++i) {
    check_same(decoder, decoder.operand(i), types[0]);
  }
}

}  // namespace mpfa::sim
