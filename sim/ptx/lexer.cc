#include "sim/ptx/lexer.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <string>

namespace mpfa::sim {
namespace {

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(source_.size() / 5);
    if (starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark of UTF-8
    for (skip_blanks(); at_ < source_.size(); skip_blanks()) tokens.push_back(next());
    tokens.push_back({TokenKind::kEnd, {}, 0, line_});
    return tokens;
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool starts_with(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  [[noreturn]] void fail(std::string_view message) const { fail_at_line(source_, line_, message); }

  void skip_blanks() {
    while (at_ < source_.size()) {
      if (peek() == '\n') {
        ++line_;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(peek())) != 0 || peek() == '\0') {
        ++at_;
      } else if (starts_with("//")) {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (starts_with("/*")) {
        skip_comment();
      } else {
        return;
      }
    }
  }

  void skip_comment() {
    const size_t end = source_.find("*/", at_ + 2);
    if (end == std::string_view::npos) fail("a comment without its end");
    for (; at_ < end + 2; ++at_) line_ += source_[at_] == '\n' ? 1 : 0;
  }

  Token token(TokenKind kind, size_t length, uint64_t bits = 0) {
    const Token result{kind, source_.substr(at_, length), bits, line_};
    at_ += length;
    return result;
  }

  size_t name_length(size_t from) const {
    size_t n = from;
    while (is_name_part(peek(n))) ++n;
    return n;
  }

  Token next() {
    const char c = peek();
    if (c == '.' && is_name_part(peek(1))) return dotted();
    if (is_digit(c)) return number();
    if (c == '"') return string();
    // '%' alone is the remainder; with a name behind it, a register.
    if (is_name_start(c) && (c != '%' || is_name_part(peek(1)))) {
      return token(TokenKind::kIdentifier, name_length(1));
    }
    for (const std::string_view two : {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||"}) {
      if (starts_with(two)) return token(TokenKind::kPunctuation, 2);
    }
    if (std::string_view("()[]{}<>,;:+-*/%&|^~!=@?").find(c) == std::string_view::npos) {
      fail("a character that PTX does not have");
    }
    return token(TokenKind::kPunctuation, 1);
  }

  // .name, .shared::cta, .2d
  Token dotted() {
    ++at_;
    size_t n = name_length(0);
    while (peek(n) == ':' && peek(n + 1) == ':' && is_name_part(peek(n + 2))) {
      n = name_length(n + 2);
    }
    return token(TokenKind::kDotted, n);
  }

  Token string() {
    const size_t end = source_.find('"', at_ + 1);
    if (end == std::string_view::npos) fail("a string without its end");
    ++at_;
    const Token result = token(TokenKind::kString, end - at_);
    ++at_;
    return result;
  }

  Token number() {
    if (peek() == '0' && (peek(1) == 'f' || peek(1) == 'F')) return float_bits(8);
    if (peek() == '0' && (peek(1) == 'd' || peek(1) == 'D')) return float_bits(16);
    size_t n = 0;
    while (is_digit(peek(n))) ++n;
    const bool decimal_point = peek(n) == '.' && !is_name_start(peek(n + 1));
    const bool exponent = (peek(n) == 'e' || peek(n) == 'E') && peek(1) != 'x';
    if (decimal_point || exponent) return decimal_fraction();
    return integer();
  }

  Token float_bits(size_t digits) {
    const std::string_view text = source_.substr(at_ + 2, digits);
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    if (error != std::errc() || end != text.data() + digits || is_name_part(peek(2 + digits))) {
      fail("a floating-point constant must have 8 (0f) or 16 (0d) hexadecimal digits");
    }
    return token(digits == 8 ? TokenKind::kFloat32 : TokenKind::kFloat64, 2 + digits, bits);
  }

  Token decimal_fraction() {
    const std::string_view rest = source_.substr(at_);
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc()) fail("a number that PTX does not have");
    return token(TokenKind::kFloat64, static_cast<size_t>(end - rest.data()),
                 std::bit_cast<uint64_t>(value));
  }

  Token integer() {
    const size_t length = name_length(0);
    std::string_view digits = source_.substr(at_, length);
    if (digits.ends_with('U')) digits.remove_suffix(1);
    int base = 10;
    if (digits.size() > 1 && digits[0] == '0') {
      const char kind = digits[1];
      base = kind == 'x' || kind == 'X' ? 16 : kind == 'b' || kind == 'B' ? 2 : 8;
      digits.remove_prefix(base == 8 ? 1 : 2);
    }
    uint64_t bits = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), bits, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail("a number that PTX does not have");
    }
    return token(TokenKind::kInteger, length, bits);
  }

  std::string_view source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

void fail_at_line(std::string_view source, uint32_t line, std::string_view message) {
  size_t begin = 0;
  for (uint32_t i = 1; i < line; ++i) {
    const size_t end = source.find('\n', begin);
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  std::string_view text = source.substr(begin, source.find('\n', begin) - begin);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  throw PtxError("line " + std::to_string(line) + ": " + std::string(message) + ": " +
                 std::string(text));
}

}  // namespace mpfa::sim
