#include "sim/ptx/declaration.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <string>
#include <utility>

#include "sim/ptx/expression.h"

namespace mpfa::sim {
namespace {

// `name<count>` declares at most so many registers at once.
constexpr int64_t kMaxRegisters = int64_t{1} << 24;
constexpr int64_t kMaxAlignment = int64_t{1} << 20;

struct NamedBits {
  std::string_view name;
  int bits;
};
constexpr std::array kTypes = {
    NamedBits{"pred", 1},    NamedBits{"b8", 8},          NamedBits{"b16", 16},
    NamedBits{"b32", 32},    NamedBits{"b64", 64},        NamedBits{"b128", 128},
    NamedBits{"u8", 8},      NamedBits{"u16", 16},        NamedBits{"u32", 32},
    NamedBits{"u64", 64},    NamedBits{"s8", 8},          NamedBits{"s16", 16},
    NamedBits{"s32", 32},    NamedBits{"s64", 64},        NamedBits{"f16", 16},
    NamedBits{"f16x2", 32},  NamedBits{"bf16", 16},       NamedBits{"bf16x2", 32},
    NamedBits{"f32", 32},    NamedBits{"f64", 64},        NamedBits{"f32x2", 64},
    NamedBits{"texref", 64}, NamedBits{"samplerref", 64}, NamedBits{"surfref", 64}};

// What may stand between the state space and the name.
void parse_attributes(TokenStream& in, Variable& variable) {
  while (in.peek().kind == TokenKind::kDotted) {
    const std::string word = in.expect_dotted("an attribute");
    if (const auto type = data_type_of(word)) {
      variable.type = *type;
    } else if (word == "align") {
      variable.alignment = in.expect_integer();
      if (variable.alignment < 1 || variable.alignment > kMaxAlignment ||
          !std::has_single_bit(static_cast<uint64_t>(variable.alignment))) {
        in.fail("an alignment must be a power of two");
      }
    } else if (word == "v2" || word == "v4" || word == "v8") {
      variable.vector_size = word[1] - '0';
    } else if (word == "ptr") {
      variable.is_pointer = true;
    } else if (word == "attribute") {
      in.expect("(");
      in.skip_past(")");
    } else if (!(variable.is_pointer && state_space_of(word))) {
      in.fail("the attribute ." + word + " of a declaration is not known");
    }
  }
  if (variable.type.bits == 0) in.fail("a declaration without a type");
}

InitialValue parse_number(TokenStream& in, const DataType& type) {
  const bool is_float = type.name[0] == 'f' || type.name.starts_with("bf");
  const bool negative = in.peek().is("-") && (in.peek(1).kind == TokenKind::kFloat32 ||
                                              in.peek(1).kind == TokenKind::kFloat64);
  if (negative) in.next();
  const Token& token = in.peek();
  InitialValue value;
  if (token.kind == TokenKind::kFloat32 || token.kind == TokenKind::kFloat64) {
    const Token number = in.next();
    const double wide =
        number.kind == TokenKind::kFloat32
            ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(number.bits)))
            : std::bit_cast<double>(number.bits);
    const double exact = negative ? -wide : wide;
    if (type.bits == 64) {
      value.bits = std::bit_cast<uint64_t>(exact);
    } else if (type.bits == 32) {
      value.bits = std::bit_cast<uint32_t>(static_cast<float>(exact));
    } else {
      in.fail("a floating-point constant for a variable of type ." + type.name);
    }
    return value;
  }
  value.bits = parse_integer_expression(in);
  if (is_float && type.bits >= 32) {
    const auto integer = static_cast<double>(static_cast<int64_t>(value.bits));
    value.bits = type.bits == 64 ? std::bit_cast<uint64_t>(integer)
                                 : std::bit_cast<uint32_t>(static_cast<float>(integer));
  }
  return value;
}

// A number, `name`, `name+8`, `generic(name)+8`, `0xFF00(name)`.
InitialValue parse_initial_value(TokenStream& in, const DataType& type) {
  if (in.peek().kind == TokenKind::kInteger && in.peek(1).is("(")) {
    const uint64_t byte_mask = in.next().bits;
    in.expect("(");
    InitialValue masked = parse_initial_value(in, type);
    in.expect(")");
    masked.byte_mask = byte_mask;
    return masked;
  }
  if (in.peek().kind != TokenKind::kIdentifier) return parse_number(in, type);
  InitialValue value;
  value.symbol = in.expect_name();
  if (value.symbol == "generic" && in.take("(")) {
    value.generic = true;
    value.symbol = in.expect_name();
    in.expect(")");
  }
  if (in.peek().is("+") || in.peek().is("-")) value.bits = parse_integer_expression(in);
  return value;
}

// Nested braces fill rows: what a row leaves out is zero.
void parse_initial_values(TokenStream& in, const Variable& variable, size_t dimension,
                          std::vector<InitialValue>& out) {
  if (!in.take("{")) {
    out.push_back(parse_initial_value(in, variable.type));
    return;
  }
  const Nesting nesting(in);
  const size_t begin = out.size();
  while (!in.peek().is("}")) {
    parse_initial_values(in, variable, dimension + 1, out);
    if (!in.take(",")) break;
  }
  in.expect("}");
  int64_t row = dimension < variable.extents.size() ? 1 : 0;
  for (size_t i = dimension; i < variable.extents.size(); ++i) row *= variable.extents[i];
  if (dimension > 0 && row > 0) {
    if (out.size() - begin > static_cast<size_t>(row)) in.fail("more values than the array has");
    out.resize(begin + static_cast<size_t>(row));
  }
}

void parse_extents(TokenStream& in, Variable& variable) {
  while (in.take("[")) {
    variable.extents.push_back(
        in.peek().is("]") ? 0 : static_cast<int64_t>(parse_integer_expression(in)));
    if (variable.extents.back() < 0) in.fail("an array with a negative extent");
    in.expect("]");
  }
}

void parse_initialiser(TokenStream& in, Variable& variable) {
  if (!in.take("=")) return;
  parse_initial_values(in, variable, 0, variable.initial);
  if (!variable.extents.empty() && variable.extents[0] == 0) {
    int64_t row = 1;
    for (size_t i = 1; i < variable.extents.size(); ++i) row *= variable.extents[i];
    const auto count = static_cast<int64_t>(variable.initial.size());
    variable.extents[0] = row == 0 ? 0 : (count + row - 1) / row;
  }
  if (static_cast<int64_t>(variable.initial.size()) * variable.type.bits > variable.bytes() * 8) {
    in.fail("more values than " + variable.name + " has elements");
  }
}

void finish(Variable& variable) {
  if (variable.alignment == 0) {
    variable.alignment = int64_t{variable.type.bits + 7} / 8 * variable.vector_size;
  }
}

}  // namespace

std::optional<StateSpace> state_space_of(std::string_view directive) {
  if (directive == "reg") return StateSpace::kReg;
  if (directive == "const") return StateSpace::kConst;
  if (directive == "global") return StateSpace::kGlobal;
  if (directive == "local") return StateSpace::kLocal;
  if (directive == "param") return StateSpace::kParam;
  if (directive == "shared") return StateSpace::kShared;
  return std::nullopt;
}

std::optional<DataType> data_type_of(std::string_view name) {
  for (const NamedBits& type : kTypes) {
    if (type.name == name) return DataType{std::string(name), type.bits};
  }
  return std::nullopt;
}

std::vector<Variable> parse_variables(TokenStream& in, StateSpace space, Linkage linkage) {
  Variable common;
  common.space = space;
  common.linkage = linkage;
  parse_attributes(in, common);
  std::vector<Variable> result;
  do {
    Variable variable = common;
    variable.name = in.expect_name();
    if (in.take("<")) {
      const int64_t count = in.expect_integer();
      if (count < 0 || count > kMaxRegisters) in.fail("too many registers");
      in.expect(">");
      for (int64_t i = 0; i < count; ++i) {
        Variable numbered = variable;
        numbered.name += std::to_string(i);
        finish(numbered);
        result.push_back(std::move(numbered));
      }
      continue;
    }
    parse_extents(in, variable);
    parse_initialiser(in, variable);
    finish(variable);
    result.push_back(std::move(variable));
  } while (in.take(","));
  in.expect(";");
  return result;
}

std::vector<Variable> parse_parameters(TokenStream& in) {
  std::vector<Variable> result;
  in.expect("(");
  while (!in.peek().is(")")) {
    Variable variable;
    const std::string word = in.expect_dotted("a state space");
    const auto space = state_space_of(word);
    if (!space) in.fail("." + word + " is no state space");
    variable.space = *space;
    parse_attributes(in, variable);
    // Prototypes may leave the name out, or write _.
    if (in.peek().kind == TokenKind::kIdentifier) variable.name = in.expect_name();
    parse_extents(in, variable);
    finish(variable);
    result.push_back(std::move(variable));
    if (!in.take(",")) break;
  }
  in.expect(")");
  return result;
}

}  // namespace mpfa::sim
