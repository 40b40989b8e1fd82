#include "io/quote.h"

#include <gtest/gtest.h>

#include <string>

namespace mpfa::internal {
namespace {

TEST(Quote, LeavesPrintableTextAsItIs) {
  EXPECT_EQ(quote(""), "''");
  EXPECT_EQ(quote("layer00.k"), "'layer00.k'");
  EXPECT_EQ(quote("\u00e9\u20ac\U0001f600 \u07ff\uffff\U0010ffff"),
            "'\u00e9\u20ac\U0001f600 \u07ff\uffff\U0010ffff'");
}

TEST(Quote, EscapesControlCharacters) {
  EXPECT_EQ(quote(std::string("a\0b\n\x1b[31m\x7f", 10)), "'a\\x00b\\x0a\\x1b[31m\\x7f'");
  EXPECT_EQ(quote("\xc2\x9b"), "'\\xc2\\x9b'") << "a C1 control starts a terminal command";
}

TEST(Quote, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(quote("\x80"), "'\\x80'") << "continuation byte first";
  EXPECT_EQ(quote("\xc0\xaf"), "'\\xc0\\xaf'") << "overlong, two bytes";
  EXPECT_EQ(quote("\xe0\x80\xaf"), "'\\xe0\\x80\\xaf'") << "overlong, three bytes";
  EXPECT_EQ(quote("\xf0\x80\x80\xaf"), "'\\xf0\\x80\\x80\\xaf'") << "overlong, four bytes";
  EXPECT_EQ(quote("\xed\xa0\x80"), "'\\xed\\xa0\\x80'") << "surrogate";
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "'\\xf4\\x90\\x80\\x80'") << "past U+10FFFF";
  EXPECT_EQ(quote("\xf5\x80\x80\x80"), "'\\xf5\\x80\\x80\\x80'");
  EXPECT_EQ(quote("\xe2\x82"), "'\\xe2\\x82'") << "cut short";
  EXPECT_EQ(quote("\xe2"
                  "a"),
            "'\\xe2a'");
}

TEST(Quote, CutsLongTextAtACharacter) {
  EXPECT_EQ(quote("abcdef", 4), "'abcd...'");
  EXPECT_EQ(quote("abcd", 4), "'abcd'");
  EXPECT_EQ(quote("abc\u20acdef", 4), "'abc\u20ac...'");
  EXPECT_LT(quote(std::string(1'000'000, 'x')).size(), 100u);
  EXPECT_LT(quote(std::string(1'000'000, '\1')).size(), 100u);
}

TEST(Quote, KeepsLongPathsWhole) {
  const std::string path(1000, 'p');
  EXPECT_EQ(quote_path(path), "'" + path + "'");
}

}  // namespace
}  // namespace mpfa::internal
