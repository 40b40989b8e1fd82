#include "sim/ptx/expression.h"

#include <gtest/gtest.h>

#include "expect_ptx_error.h"

namespace mpfa::sim {
namespace {

int64_t value(std::string_view text) {
  TokenStream in(text);
  const auto result = static_cast<int64_t>(parse_integer_expression(in));
  EXPECT_TRUE(in.at_end()) << text;
  return result;
}

TEST(Expression, PrecedenceIsThatOfC) {
  // Each beside the same with all of its parentheses.
  EXPECT_EQ(value("1 + 2 * 3"), 1 + (2 * 3));
  EXPECT_EQ(value("(1 + 2) * 3"), (1 + 2) * 3);
  EXPECT_EQ(value("7 - 4 - 2"), (7 - 4) - 2);
  EXPECT_EQ(value("1 << 3 + 1"), 1 << (3 + 1));
  EXPECT_EQ(value("12 & 10 ^ 3 | 64"), ((12 & 10) ^ 3) | 64);
  EXPECT_EQ(value("5 > 3 == 1"), 1);
  EXPECT_EQ(value("1 == 5 > 3"), 1);
  EXPECT_EQ(value("1 || 2 && 0"), 1);
  EXPECT_EQ(value("1 ? 5 : 7"), 5);
  EXPECT_EQ(value("0 ? 5 : 1 ? 6 : 7"), 6);
  EXPECT_EQ(value("100 / 7 % 5"), (100 / 7) % 5);
  EXPECT_EQ(value("-7 / 2"), -3);
  EXPECT_EQ(value("-7 >> 1"), -4);
  EXPECT_EQ(value("~5 + !0 + !3"), ~5 + 1);
  EXPECT_EQ(value("- -4"), 4);
  EXPECT_EQ(value("3 <= 3 != 0"), 1);
}

TEST(Expression, EdgesHaveValues) {
  EXPECT_EQ(value("1 << 64"), 0);
  EXPECT_EQ(value("-1 >> 70"), -1);
  EXPECT_EQ(value("0x8000000000000000 / -1"), INT64_MIN);
  EXPECT_EQ(value("0x8000000000000000 % -1"), 0);
  EXPECT_EQ(value("(.s64) 5"), 5);
}

TEST(Expression, Errors) {
  expect_ptx_error("division by zero", [] { value("1 / 0"); });
  expect_ptx_error("division by zero", [] { value("1 % (2 - 2)"); });
  expect_ptx_error("expected a constant", [] { value("1 +"); });
  expect_ptx_error("expected ')'", [] { value("(1 + 2"); });
  expect_ptx_error("expected ':'", [] { value("1 ? 2"); });
}

}  // namespace
}  // namespace mpfa::sim
