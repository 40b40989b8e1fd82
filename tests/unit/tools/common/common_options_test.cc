#include "common/common_options.h"

#include <gtest/gtest.h>

namespace mpfa::tools {
namespace {

std::string check(const CLI::Validator& validator, std::string text) { return validator(text); }

TEST(WholeNumber, AcceptsTheRangeAndNamesIt) {
  EXPECT_EQ(check(whole_number(1, 10), "1"), "");
  EXPECT_EQ(check(whole_number(1, 10), "10"), "");
  EXPECT_EQ(check(whole_number(1, 10), "0"), "'0' must be a whole number, 1 to 10");
  EXPECT_EQ(check(whole_number(1, 10), "11"), "'11' must be a whole number, 1 to 10");
  EXPECT_EQ(check(whole_number(0), "-1"), "'-1' must be a whole number from 0 on");
}

TEST(WholeNumber, RejectsWhatIsNotOne) {
  for (const char* text : {"", "x", "1x", "1.0", "1e3", " 1", "0x10", "99999999999999999999"}) {
    EXPECT_NE(check(whole_number(0), text), "") << text;
  }
}

TEST(WholeNumber, Multiples) {
  EXPECT_EQ(check(whole_number(0, 1000, 128), "256"), "");
  EXPECT_EQ(check(whole_number(0, 1000, 128), "0"), "");
  EXPECT_NE(check(whole_number(0, 1000, 128), "100").find("a multiple of 128"), std::string::npos);
}

TEST(OneOf, SaysWhatIsAllowed) {
  EXPECT_EQ(check(one_of({0, 4, 16}), "4"), "");
  EXPECT_EQ(check(one_of({0, 4, 16}), "0"), "");
  for (const char* text : {"", "5", "04", "+4", "4.0", "0x10", "1e1"}) {
    EXPECT_EQ(check(one_of({0, 4, 16}), text), "'" + std::string(text) + "' must be 0, 4 or 16");
  }
}

TEST(PositiveNumber, FiniteAndAboveZero) {
  for (const char* text : {"1", "0.5", "1e-3", "50."}) {
    EXPECT_EQ(check(positive_number(), text), "") << text;
  }
  for (const char* text : {"0", "-1", "nan", "inf", "1e99", "", "x", "1 "}) {
    EXPECT_NE(check(positive_number(), text), "") << text;
  }
}

}  // namespace
}  // namespace mpfa::tools
