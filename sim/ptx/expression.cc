#include "sim/ptx/expression.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace mpfa::sim {
namespace {

uint64_t parse_unary(TokenStream& in) {
  const Nesting nesting(in);
  if (in.take("-")) return 0 - parse_unary(in);
  if (in.take("+")) return parse_unary(in);
  if (in.take("~")) return ~parse_unary(in);
  if (in.take("!")) return parse_unary(in) == 0 ? 1 : 0;
  if (in.take("(")) {
    if (in.take_dotted("s64") || in.take_dotted("u64")) {
      in.expect(")");
      return parse_unary(in);
    }
    const uint64_t value = parse_integer_expression(in);
    in.expect(")");
    return value;
  }
  if (in.peek().kind != TokenKind::kInteger) in.fail("expected a constant");
  return in.next().bits;
}

// Operators of one level of precedence, tightest first.
using Level = std::array<std::string_view, 4>;
constexpr std::array<Level, 10> kLevels = {
    Level{"*", "/", "%"}, Level{"+", "-"}, Level{"<<", ">>"}, Level{"<", ">", "<=", ">="},
    Level{"==", "!="},    Level{"&"},      Level{"^"},        Level{"|"},
    Level{"&&"},          Level{"||"}};

uint64_t divide(std::string_view op, int64_t a, int64_t b, const TokenStream& in) {
  if (b == 0) in.fail("division by zero in a constant");
  // The one quotient that int64_t cannot hold wraps, like every other result.
  if (b == -1) return op == "/" ? 0 - static_cast<uint64_t>(a) : 0;
  return static_cast<uint64_t>(op == "/" ? a / b : a % b);
}

std::optional<bool> compare(std::string_view op, int64_t a, int64_t b) {
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "&&") return a != 0 && b != 0;
  if (op == "||") return a != 0 || b != 0;
  return std::nullopt;
}

uint64_t apply(std::string_view op, uint64_t a, uint64_t b, const TokenStream& in) {
  constexpr uint64_t kBits = 64;
  const auto signed_a = static_cast<int64_t>(a);
  if (const auto holds = compare(op, signed_a, static_cast<int64_t>(b))) return *holds ? 1 : 0;
  if (op == "*") return a * b;
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "<<") return b >= kBits ? 0 : a << b;
  if (op == ">>") return static_cast<uint64_t>(signed_a >> std::min(b, kBits - 1));
  if (op == "&") return a & b;
  if (op == "^") return a ^ b;
  if (op == "|") return a | b;
  return divide(op, signed_a, static_cast<int64_t>(b), in);
}

struct Operator {
  std::string_view text;
  size_t level;  // 0: the tightest
};

std::optional<Operator> peek_operator(TokenStream& in) {
  for (size_t level = 0; level < kLevels.size(); ++level) {
    for (const std::string_view op : kLevels[level]) {
      if (!op.empty() && in.peek().is(op)) return Operator{op, level};
    }
  }
  return std::nullopt;
}

// Operators of the first `num_levels` levels, from left to right. It calls itself once an operator,
// not once a level, so that deep nesting is no deep stack.
uint64_t parse_binary(TokenStream& in, size_t num_levels) {
  uint64_t value = parse_unary(in);
  while (true) {
    const std::optional<Operator> found = peek_operator(in);
    if (!found || found->level >= num_levels) return value;
    in.next();
    value = apply(found->text, value, parse_binary(in, found->level), in);
  }
}

}  // namespace

uint64_t parse_integer_expression(TokenStream& in) {
  const uint64_t value = parse_binary(in, kLevels.size());
  if (!in.take("?")) return value;
  const Nesting nesting(in);
  const uint64_t yes = parse_integer_expression(in);
  in.expect(":");
  const uint64_t no = parse_integer_expression(in);
  return value != 0 ? yes : no;
}

}  // namespace mpfa::sim
