#include "sim/ptx/parser.h"

#include <charconv>
#include <utility>

#include "sim/ptx/declaration.h"
#include "sim/ptx/function_parser.h"
#include "sim/ptx/scope.h"
#include "sim/ptx/token_stream.h"

namespace mpfa::sim {
namespace {

constexpr std::pair<int, int> kNewestVersion = {9, 0};

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view source) : in_(source) {}

  Module run() {
    while (!in_.at_end()) {
      if (in_.take(";")) continue;
      directive();
    }
    if (module_.version_major == 0) in_.fail("a PTX source must begin with .version");
    return std::move(module_);
  }

 private:
  void directive() {
    const Linkage linkage = parse_linkage();
    const std::string word = in_.expect_dotted("a directive");
    if (word == "version") return version();
    if (word == "target") return target();
    if (word == "address_size") {
      module_.address_size = static_cast<int>(in_.expect_integer());
    } else if (word == "file") {
      file();
    } else if (word == "section") {
      section();
    } else if (word == "pragma") {
      in_.skip_past(";");
    } else if (word == "alias") {
      alias();
    } else if (word == "entry" || word == "func") {
      module_.functions.push_back(parse_function(in_, word == "entry", linkage, names_));
    } else if (const auto space = state_space_of(word); space && *space != StateSpace::kReg) {
      variables(*space, linkage);
    } else {
      in_.fail("the directive ." + word + " is not known");
    }
  }

  Linkage parse_linkage() {
    if (in_.take_dotted("visible")) return Linkage::kVisible;
    if (in_.take_dotted("extern")) return Linkage::kExtern;
    if (in_.take_dotted("weak")) return Linkage::kWeak;
    if (in_.take_dotted("common")) return Linkage::kCommon;
    return Linkage::kInternal;
  }

  // .version 9.0, which reads as one decimal fraction: its text says more than its value.
  void version() {
    const Token token = in_.next();
    const size_t dot = token.text.find('.');
    if (token.kind != TokenKind::kFloat64 || dot == std::string_view::npos) {
      in_.fail("expected a version such as 9.0");
    }
    const auto part = [](std::string_view text) {
      int value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    module_.version_major = part(token.text.substr(0, dot));
    module_.version_minor = part(token.text.substr(dot + 1));
    const std::pair version(module_.version_major, module_.version_minor);
    if (version > kNewestVersion) {
      throw PtxVersionError("line " + std::to_string(token.line) + ": unsupported .version " +
                            std::string(token.text) + ": 9.0 is the newest that is read");
    }
  }

  // .target sm_90a, debug, texmode_independent
  void target() {
    module_.target = in_.expect_name();
    while (in_.take(",")) in_.expect_name();
  }

  // .file 1 "name" [, time, size]
  void file() {
    const auto number = static_cast<int>(in_.expect_integer());
    if (in_.peek().kind != TokenKind::kString) in_.fail("expected a file's name");
    module_.files[number] = std::string(in_.next().text);
    while (in_.take(",")) in_.expect_integer();
  }

  // .section .debug_info { ... }
  void section() {
    in_.expect_dotted("a section's name");
    in_.expect("{");
    for (int depth = 1; depth > 0;) {
      if (in_.at_end()) in_.fail("a section without its end");
      const Token& token = in_.next();
      if (token.is("{")) ++depth;
      if (token.is("}")) --depth;
    }
  }

  // .alias name, function;
  void alias() {
    const std::string name = in_.expect_name();
    in_.expect(",");
    const std::string aliasee = in_.expect_name();
    in_.expect(";");
    const Function* function = module_.find_function(aliasee);
    if (function == nullptr) in_.fail(aliasee + " is not declared");
    Function copy = *function;
    copy.name = name;
    module_.functions.push_back(std::move(copy));
  }

  void variables(StateSpace space, Linkage linkage) {
    for (Variable& variable : parse_variables(in_, space, linkage)) {
      names_.declare(variable.name,
                     {.kind = Declared::Kind::kVariable, .unique_name = variable.name});
      module_.variables.push_back(std::move(variable));
    }
  }

  TokenStream in_;
  Module module_;
  Scopes names_;
};

}  // namespace

Module parse_ptx(std::string_view source) { return ModuleParser(source).run(); }

}  // namespace mpfa::sim
