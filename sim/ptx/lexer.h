// PTX text to tokens (PTX ISA 9.0, section 4: Syntax).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpfa/check.h"

namespace mpfa::sim {

// PTX that cannot be read: the message has the line's number and its text.
class PtxError : public Error {
 public:
  using Error::Error;
};

// PTX of a later version than is read here.
class PtxVersionError : public PtxError {
 public:
  using PtxError::PtxError;
};

enum class TokenKind : uint8_t {
  kIdentifier,  // name, %name, $name: `text`
  kDotted,  // a directive or modifier without its dot, "::" included: .shared::cta is "shared::cta"
  kInteger,      // `bits`; `text` as written
  kFloat32,      // 0f3F800000: `bits` are those of the FP32 value
  kFloat64,      // 0d..., or a decimal constant: `bits` are those of the FP64 value
  kString,       // "text": without the quotes
  kPunctuation,  // one of ( ) [ ] { } < > , ; : + - * / % & | ^ ~ ! = @ ? << >>
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // into the source
  uint64_t bits = 0;
  uint32_t line = 0;  // from 1

  bool is(std::string_view punctuation) const {
    return kind == TokenKind::kPunctuation && text == punctuation;
  }
  bool is_dotted(std::string_view name) const { return kind == TokenKind::kDotted && text == name; }
  bool is_name(std::string_view name) const {
    return kind == TokenKind::kIdentifier && text == name;
  }
};

// All tokens of a source, with one of kind kEnd last. They point into `source`, which must outlive
// them. Throws PtxError for a character or a number that PTX does not have.
std::vector<Token> tokenize(std::string_view source);

// Throws PtxError: "line 12: <message>: <the line>".
[[noreturn]] void fail_at_line(std::string_view source, uint32_t line, std::string_view message);

}  // namespace mpfa::sim
