#include "sim/ptx/lexer.h"

#include <gtest/gtest.h>

#include <bit>

#include "expect_ptx_error.h"

namespace mpfa::sim {
namespace {

Token only(std::string_view text) {
  const std::vector<Token> tokens = tokenize(text);
  EXPECT_EQ(tokens.size(), 2u) << text;
  EXPECT_EQ(tokens.back().kind, TokenKind::kEnd);
  return tokens[0];
}

TEST(Lexer, Names) {
  for (const char* name : {"add", "%r1", "$L__BB0_1", "_", "_Z3fooPf", "%tid", "a$b"}) {
    EXPECT_EQ(only(name).kind, TokenKind::kIdentifier) << name;
    EXPECT_EQ(only(name).text, name);
  }
}

TEST(Lexer, ModifiersKeepTheirDoubleColons) {
  const auto tokens = tokenize("cp.async.bulk.shared::cluster.2d.mbarrier::complete_tx::bytes");
  const char* expected[] = {
      "cp", "async", "bulk", "shared::cluster", "2d", "mbarrier::complete_tx::bytes"};
  ASSERT_EQ(tokens.size(), 7u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(tokens[i].text, expected[i]);
  EXPECT_EQ(tokens[0].kind, TokenKind::kIdentifier);
  EXPECT_EQ(tokens[4].kind, TokenKind::kDotted);
}

TEST(Lexer, Integers) {
  EXPECT_EQ(only("0").bits, 0u);
  EXPECT_EQ(only("4294967296").bits, 4294967296u);
  EXPECT_EQ(only("18446744073709551615").bits, UINT64_MAX);
  EXPECT_EQ(only("0x1F").bits, 31u);
  EXPECT_EQ(only("0XfF").bits, 255u);
  EXPECT_EQ(only("0b101").bits, 5u);
  EXPECT_EQ(only("017").bits, 15u);
  EXPECT_EQ(only("12U").bits, 12u);
  EXPECT_EQ(only("0x1eU").bits, 30u);  // no exponent
}

TEST(Lexer, FloatingPoint) {
  EXPECT_EQ(only("0f3F800000").kind, TokenKind::kFloat32);
  EXPECT_EQ(only("0f3F800000").bits, 0x3F800000u);
  EXPECT_EQ(only("0d3ff0000000000000").kind, TokenKind::kFloat64);
  EXPECT_EQ(only("0D3FF0000000000000").bits, std::bit_cast<uint64_t>(1.0));
  EXPECT_EQ(only("1.5").bits, std::bit_cast<uint64_t>(1.5));
  EXPECT_EQ(only("1.5e-3").bits, std::bit_cast<uint64_t>(1.5e-3));
  EXPECT_EQ(only("2e10").bits, std::bit_cast<uint64_t>(2e10));
}

TEST(Lexer, CommentsAndLines) {
  const auto tokens = tokenize("// one\n/* two\n three */ add\n;");
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[0].text, "add");
  EXPECT_EQ(tokens[0].line, 3u);
  EXPECT_TRUE(tokens[1].is(";"));
  EXPECT_EQ(tokens[1].line, 4u);
}

TEST(Lexer, PunctuationAndStrings) {
  const auto tokens = tokenize("a<<2>>b %p1|%p2 \"x y\" @!%p");
  const char* expected[] = {"a", "<<", "2", ">>", "b", "%p1", "|", "%p2", "x y", "@", "!", "%p"};
  ASSERT_EQ(tokens.size(), 13u);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(tokens[i].text, expected[i]);
  EXPECT_EQ(tokens[8].kind, TokenKind::kString);
}

TEST(Lexer, ErrorsNameTheLine) {
  expect_ptx_error("line 2: a character that PTX does not have: add `;",
                   [] { tokenize("mov;\n  add `;\n"); });
  expect_ptx_error("a number", [] { tokenize("12abc"); });
  expect_ptx_error("a number", [] { tokenize("0x"); });
  expect_ptx_error("a number", [] { tokenize("99999999999999999999"); });
  expect_ptx_error("hexadecimal digits", [] { tokenize("0f3F80"); });
  expect_ptx_error("hexadecimal digits", [] { tokenize("0f3F8000001"); });
  expect_ptx_error("a string without its end", [] { tokenize("\"abc"); });
  expect_ptx_error("line 1: a comment without its end", [] { tokenize("/* abc\n\n"); });
}

TEST(Lexer, AByteOrderMarkIsSkipped) {
  const std::vector<Token> tokens = tokenize("\xEF\xBB\xBF.version");
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_TRUE(tokens[0].is_dotted("version"));
  EXPECT_THROW(tokenize("a \xEF\xBB\xBF"), PtxError);
}

}  // namespace
}  // namespace mpfa::sim
