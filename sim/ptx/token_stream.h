// The parsers' way through the tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ptx/lexer.h"

namespace mpfa::sim {

class TokenStream {
 public:
  explicit TokenStream(std::string_view source) : source_(source), tokens_(tokenize(source)) {}

  const Token& peek(size_t ahead = 0) const {
    return tokens_[at_ + ahead < tokens_.size() ? at_ + ahead : tokens_.size() - 1];
  }
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_end() const { return peek().kind == TokenKind::kEnd; }

  // Takes the token if it is this one.
  bool take(std::string_view punctuation) { return take_if(peek().is(punctuation)); }
  bool take_dotted(std::string_view name) { return take_if(peek().is_dotted(name)); }

  void expect(std::string_view punctuation) {
    if (!take(punctuation)) fail("expected '" + std::string(punctuation) + "'");
  }
  // Takes everything up to this token, and the token.
  void skip_past(std::string_view punctuation) {
    while (!take(punctuation)) {
      if (at_end()) fail("expected '" + std::string(punctuation) + "'");
      next();
    }
  }
  std::string expect_name() {
    if (peek().kind != TokenKind::kIdentifier) fail("expected a name");
    return std::string(next().text);
  }
  std::string expect_dotted(std::string_view what) {
    if (peek().kind != TokenKind::kDotted) fail("expected " + std::string(what));
    return std::string(next().text);
  }
  // A number as written in a directive.
  int64_t expect_integer() {
    const bool negative = take("-");
    if (peek().kind != TokenKind::kInteger) fail("expected a number");
    const auto value = static_cast<int64_t>(next().bits);
    return negative ? -value : value;
  }

  [[noreturn]] void fail(std::string_view message) const {
    fail_at_line(source_, peek().line, message);
  }
  [[noreturn]] void fail_at(uint32_t line, std::string_view message) const {
    fail_at_line(source_, line, message);
  }

 private:
  bool take_if(bool matches) {
    if (matches) next();
    return matches;
  }

  friend class Nesting;

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;  // of Nesting
};

// One level within braces, parentheses or operators, while it lives: readers of what nests call
// themselves, and a text must not run them out of stack.
class Nesting {
 public:
  static constexpr int kMaxDepth = 256;

  explicit Nesting(TokenStream& in) : in_(in) {
    if (in_.depth_ == kMaxDepth) {
      in_.fail("more than " + std::to_string(kMaxDepth) + " levels within one another");
    }
    ++in_.depth_;
  }
  ~Nesting() { --in_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  TokenStream& in_;
};

}  // namespace mpfa::sim
