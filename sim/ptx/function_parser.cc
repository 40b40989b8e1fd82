#include "sim/ptx/function_parser.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "sim/ptx/declaration.h"
#include "sim/ptx/expression.h"
#include "sim/ptx/special_registers.h"

namespace mpfa::sim {
namespace {

constexpr uint64_t kWarpSize = 32;  // WARP_SZ

int component_of(std::string_view name) {
  if (name.size() != 1) return -1;
  const size_t at = std::string_view("xyzw").find(name[0]);
  const size_t color = std::string_view("rgba").find(name[0]);
  return at != std::string_view::npos      ? static_cast<int>(at)
         : color != std::string_view::npos ? static_cast<int>(color)
                                           : -1;
}

// The bytes or halves that video instructions take of a register: b0, h10, b7654.
bool is_selector(std::string_view name) {
  if (name.size() < 2 || name.size() > 5 || (name[0] != 'b' && name[0] != 'h')) return false;
  return name.find_first_not_of("01234567", 1) == std::string_view::npos;
}

class BodyParser {
 public:
  BodyParser(TokenStream& in, Function& function, Scopes& names)
      : in_(in), function_(function), names_(names) {}

  void run() {
    in_.expect("{");
    declare_all(function_.results);
    declare_all(function_.params);
    block();
    for (const auto& [operand, label] : pending_) resolve(operand, label);
  }

 private:
  // A label that an operand names, and where, to be found when all labels are known.
  struct PendingLabel {
    std::string name;
    uint32_t line;
    size_t block;
  };
  struct LabelPlace {
    size_t instruction;
    std::vector<size_t> path;  // operand, then parts
    int64_t slot;              // in Operand::labels, or -1 for Operand::index
  };

  // Labels belong to the block that they stand in.
  static constexpr size_t kNoBlock = SIZE_MAX;
  struct Block {
    size_t outer;
    std::unordered_map<std::string, int64_t> labels;
  };

  // ---- names ------------------------------------------------------------------------------------

  void declare_all(const std::vector<Variable>& variables) {
    for (const Variable& variable : variables) {
      if (variable.name.empty() || variable.name == "_") continue;
      if (variable.space == StateSpace::kReg) {
        declare_register(variable);
      } else {
        declare(variable.name, {.kind = Declared::Kind::kVariable, .unique_name = variable.name});
      }
    }
  }

  void declare(const std::string& name, Declared declared) {
    if (!names_.declare(name, std::move(declared))) in_.fail(name + " is declared twice");
  }

  void declare_register(const Variable& variable) {
    declare(variable.name, {.kind = Declared::Kind::kRegister,
                            .index = static_cast<int64_t>(function_.registers.size()),
                            .unique_name = {}});
    function_.registers.push_back({variable.name, variable.type, variable.vector_size});
  }

  // Blocks may declare the name of another block again: param0 of every call.
  void declare_variable(Variable variable) {
    const std::string name = variable.name;
    const int64_t use = uses_[name]++;
    if (use > 0 || names_.find(name) != nullptr) variable.name += "#" + std::to_string(use);
    declare(name, {.kind = Declared::Kind::kVariable, .unique_name = variable.name});
    function_.variables.push_back(std::move(variable));
  }

  // ---- statements -------------------------------------------------------------------------------

  void block() {
    const Nesting nesting(in_);
    names_.open();
    const size_t outer = block_;
    block_ = blocks_.size();
    blocks_.push_back({outer, {}});
    while (!in_.take("}")) {
      if (in_.at_end()) in_.fail("the end of " + function_.name + " is missing");
      statement();
    }
    block_ = outer;
    names_.close();
  }

  void statement() {
    if (in_.take("{")) return block();
    if (in_.take(";")) return;
    if (in_.peek().kind == TokenKind::kDotted) return directive();
    if (in_.peek().kind == TokenKind::kIdentifier && in_.peek(1).is(":")) return label();
    instruction();
  }

  void label() {
    const std::string name = in_.expect_name();
    in_.expect(":");
    if (in_.peek().is_dotted("branchtargets") || in_.peek().is_dotted("calltargets")) {
      in_.next();
      return targets(name);
    }
    if (in_.take_dotted("callprototype")) return prototype(name);
    const auto place = static_cast<int64_t>(function_.instructions.size());
    if (!blocks_[block_].labels.emplace(name, place).second) {
      in_.fail("the label " + name + " stands twice");
    }
  }

  void directive() {
    const std::string word = in_.expect_dotted("a directive");
    if (word == "loc") return loc();
    if (word == "pragma") {
      in_.skip_past(";");
      return;
    }
    const auto space = state_space_of(word);
    if (!space) in_.fail("the directive ." + word + " in a function is not known");
    for (Variable& variable : parse_variables(in_, *space, Linkage::kInternal)) {
      if (*space == StateSpace::kReg) {
        declare_register(variable);
      } else {
        declare_variable(std::move(variable));
      }
    }
  }

  // .loc 1 12 3 [, function_name label [+ n], inlined_at 1 15 3]
  void loc() {
    location_.file = static_cast<int>(in_.expect_integer());
    location_.line = static_cast<int>(in_.expect_integer());
    location_.column = static_cast<int>(in_.expect_integer());
    while (in_.take(",")) {
      const std::string word = in_.expect_name();
      if (word == "function_name") {
        in_.expect_name();
        if (in_.take("+")) in_.expect_integer();
      } else if (word == "inlined_at") {
        for (int i = 0; i < 3; ++i) in_.expect_integer();
      } else {
        in_.fail(word + " in .loc is not known");
      }
    }
  }

  void targets(const std::string& name) {
    const auto index = static_cast<int64_t>(targets_.size());
    targets_.emplace_back();
    do {
      targets_.back().push_back({in_.expect_name(), in_.peek().line, block_});
    } while (in_.take(","));
    in_.expect(";");
    declare(name, {.kind = Declared::Kind::kTargets, .index = index, .unique_name = name});
  }

  void prototype(const std::string& name) {
    Prototype result;
    if (in_.peek().is("(")) result.results = parse_parameters(in_);
    in_.expect_name();  // _
    if (in_.peek().is("(")) result.params = parse_parameters(in_);
    while (in_.peek().kind == TokenKind::kDotted) {  // .noreturn
      in_.next();
      if (in_.peek().kind == TokenKind::kInteger) in_.next();
    }
    in_.expect(";");
    declare(name, {.kind = Declared::Kind::kPrototype, .unique_name = name});
    function_.prototypes[name] = std::move(result);
  }

  void instruction() {
    Instruction result;
    result.ptx_line = in_.peek().line;
    result.location = location_;
    if (in_.take("@")) {
      result.guard_negated = in_.take("!");
      const std::string name = in_.expect_name();
      const Declared* declared = names_.find(name);
      if (declared == nullptr || declared->kind != Declared::Kind::kRegister) {
        in_.fail("the guard " + name + " is not a declared register");
      }
      result.guard = declared->index;
    }
    result.opcode = in_.expect_name();
    while (in_.peek().kind == TokenKind::kDotted) {
      result.modifiers.push_back(in_.expect_dotted("a modifier"));
    }
    in_call_ = result.opcode == "call";
    if (!in_.peek().is(";")) {
      do {
        std::vector<size_t> path = {result.operands.size()};
        result.operands.push_back(operand(path));
      } while (in_.take(","));
    }
    in_.expect(";");
    function_.instructions.push_back(std::move(result));
  }

  // ---- operands ---------------------------------------------------------------------------------

  Operand operand(std::vector<size_t>& path) {
    Operand first = single(path);
    if (!in_.take("|")) return first;
    Operand pair;
    pair.kind = OperandKind::kPair;
    pair.parts = {std::move(first), single(path)};
    return pair;
  }

  Operand single(std::vector<size_t>& path) {
    const Nesting nesting(in_);
    if (in_.take("{")) return group(OperandKind::kVector, "}", path);
    if (in_.take("[")) return address(path);
    if (in_.peek().is("(") && !begins_cast_or_number()) {
      in_.next();
      return group(OperandKind::kList, ")", path);
    }
    if (in_.take("!")) {
      Operand result = single(path);
      result.negated = true;
      return result;
    }
    const Token& token = in_.peek();
    if (token.is("-") && in_.peek(1).kind == TokenKind::kIdentifier) {
      in_.next();
      Operand result = single(path);
      result.negated = true;
      return result;
    }
    const bool minus_float = token.is("-") && (in_.peek(1).kind == TokenKind::kFloat32 ||
                                               in_.peek(1).kind == TokenKind::kFloat64);
    if (minus_float || token.kind == TokenKind::kFloat32 || token.kind == TokenKind::kFloat64) {
      return floating(minus_float);
    }
    if (token.kind == TokenKind::kIdentifier) return named(path);
    Operand result;
    result.kind = OperandKind::kInteger;
    result.bits = parse_integer_expression(in_);
    return result;
  }

  // Whether the parenthesis here opens an expression rather than a list of arguments.
  bool begins_cast_or_number() const {
    const Token& inside = in_.peek(1);
    if (inside.kind == TokenKind::kDotted) return true;
    if (inside.kind != TokenKind::kInteger && !inside.is("(") && !inside.is("-")) return false;
    return !in_call_;
  }

  Operand floating(bool negative) {
    if (negative) in_.next();
    const Token token = in_.next();
    Operand result;
    const bool single_precision = token.kind == TokenKind::kFloat32;
    result.kind = single_precision ? OperandKind::kFloat32 : OperandKind::kFloat64;
    const uint64_t sign = single_precision ? uint64_t{1} << 31 : uint64_t{1} << 63;
    result.bits = negative ? token.bits ^ sign : token.bits;
    return result;
  }

  Operand group(OperandKind kind, std::string_view end, std::vector<size_t>& path) {
    Operand result;
    result.kind = kind;
    while (!in_.peek().is(end)) {
      path.push_back(result.parts.size());
      result.parts.push_back(operand(path));
      path.pop_back();
      if (!in_.take(",")) break;
    }
    in_.expect(end);
    return result;
  }

  // [base], [base + 8], [tensor_map, {x, y}], [base, {..}] with anything behind the base as parts.
  Operand address(std::vector<size_t>& path) {
    Operand result = group(OperandKind::kAddress, "]", path);
    if (result.parts.empty()) in_.fail("an address without a base");
    std::swap(result.offset, result.parts[0].offset);
    return result;
  }

  Operand named(std::vector<size_t>& path) {
    const uint32_t line = in_.peek().line;
    const std::string name = in_.expect_name();
    Operand result;
    if (name == "_") return result;
    if (name == "WARP_SZ") {
      result.kind = OperandKind::kInteger;
      result.bits = kWarpSize;
      return result;
    }
    const Declared* declared = names_.find(name);
    if (declared != nullptr) {
      result = of_declared(*declared, path);
    } else if (is_special_register(name)) {
      result.kind = OperandKind::kSpecial;
      result.name = name;
    } else {
      result.kind = OperandKind::kLabel;
      pending_.push_back({{function_.instructions.size(), path, -1}, {name, line, block_}});
    }
    if (in_.peek().kind == TokenKind::kDotted) component(result);
    if (in_.peek().is("+") || in_.peek().is("-")) {
      result.offset = static_cast<int64_t>(parse_integer_expression(in_));
    }
    return result;
  }

  void component(Operand& result) {
    if (is_selector(in_.peek().text)) {
      result.selector = in_.next().text;
      return;
    }
    result.component = component_of(in_.peek().text);
    if (result.component < 0) in_.fail("a component must be x, y, z or w");
    in_.next();
  }

  Operand of_declared(const Declared& declared, const std::vector<size_t>& path) {
    Operand result;
    result.name = declared.unique_name;
    switch (declared.kind) {
      case Declared::Kind::kRegister:
        result.kind = OperandKind::kRegister;
        result.index = declared.index;
        break;
      case Declared::Kind::kVariable:
        result.kind = OperandKind::kVariable;
        break;
      case Declared::Kind::kFunction:
      case Declared::Kind::kPrototype:
        result.kind = OperandKind::kFunction;
        break;
      case Declared::Kind::kTargets: {
        result.kind = OperandKind::kTargets;
        const std::vector<PendingLabel>& list = targets_[static_cast<size_t>(declared.index)];
        result.labels.resize(list.size(), -1);
        for (size_t i = 0; i < list.size(); ++i) {
          pending_.push_back(
              {{function_.instructions.size(), path, static_cast<int64_t>(i)}, list[i]});
        }
        break;
      }
    }
    return result;
  }

  // The label of that name in the innermost block around its use; -1 if there is none.
  int64_t find_label(const PendingLabel& label) const {
    for (size_t block = label.block; block != kNoBlock; block = blocks_[block].outer) {
      const auto found = blocks_[block].labels.find(label.name);
      if (found != blocks_[block].labels.end()) return found->second;
    }
    return -1;
  }

  void resolve(const LabelPlace& place, const PendingLabel& label) {
    const int64_t target = find_label(label);
    if (target < 0) in_.fail_at(label.line, label.name + " is not declared");
    Operand* operand = &function_.instructions[place.instruction].operands[place.path[0]];
    for (size_t i = 1; i < place.path.size(); ++i) operand = &operand->parts[place.path[i]];
    // A pair's place is its own, not its parts'; labels never stand in pairs.
    if (place.slot >= 0) {
      operand->labels[static_cast<size_t>(place.slot)] = target;
    } else if (operand->kind == OperandKind::kLabel) {
      operand->index = target;
      operand->name = label.name;
    } else {
      in_.fail_at(label.line, label.name + " is not declared");
    }
  }

  TokenStream& in_;
  Function& function_;
  Scopes& names_;
  SourceLocation location_;
  std::vector<Block> blocks_;
  size_t block_ = kNoBlock;
  std::unordered_map<std::string, int64_t> uses_;
  std::vector<std::vector<PendingLabel>> targets_;
  std::vector<std::pair<LabelPlace, PendingLabel>> pending_;
  bool in_call_ = false;  // where parentheses are lists, even around numbers
};

// .maxntid 128, 1, 1 and the like, between the parameters and the body.
void parse_function_directives(TokenStream& in, Function& function) {
  static const std::set<std::string, std::less<>> kKnown = {
      "maxnreg",           "maxntid",  "reqntid",         "minnctapersm",
      "maxnctapersm",      "noreturn", "explicitcluster", "reqnctapercluster",
      "maxclusterrank",    "alias",    "abi_preserve",    "abi_preserve_control",
      "blocksareclusters", "unified",  "callconv"};
  while (in.peek().kind == TokenKind::kDotted) {
    const std::string word = in.expect_dotted("a directive");
    if (word == "pragma") {
      in.skip_past(";");
      continue;
    }
    if (word == "attribute") {
      in.expect("(");
      in.skip_past(")");
      continue;
    }
    if (!kKnown.contains(word)) in.fail("the directive ." + word + " of a function is not known");
    std::vector<int64_t>& values = function.directives[word];
    while (in.peek().kind == TokenKind::kInteger) {
      values.push_back(in.expect_integer());
      if (!in.take(",")) break;
    }
  }
}

}  // namespace

Function parse_function(TokenStream& in, bool is_entry, Linkage linkage, Scopes& globals) {
  Function function;
  function.is_entry = is_entry;
  function.linkage = linkage;
  while (in.take_dotted("attribute")) {
    in.expect("(");
    in.skip_past(")");
  }
  if (in.peek().is("(")) function.results = parse_parameters(in);
  function.name = in.expect_name();
  globals.declare(function.name, {.kind = Declared::Kind::kFunction, .unique_name = function.name});
  if (in.peek().is("(")) function.params = parse_parameters(in);
  parse_function_directives(in, function);
  if (in.take(";")) return function;
  function.is_defined = true;
  globals.open();
  BodyParser(in, function, globals).run();
  globals.close();
  return function;
}

}  // namespace mpfa::sim
