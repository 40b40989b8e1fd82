#include "common/row_range.h"

#include <gtest/gtest.h>

#include "common/errors.h"

namespace mpfa::tools {
namespace {

TEST(RowSlice, ReadsBothEndsAndNeither) {
  EXPECT_EQ(parse_row_slice("3:7"), (RowSlice{3, 7}));
  EXPECT_EQ(parse_row_slice(":448"), (RowSlice{std::nullopt, 448}));
  EXPECT_EQ(parse_row_slice("-64:"), (RowSlice{-64, std::nullopt}));
  EXPECT_EQ(parse_row_slice(":"), RowSlice{});
}

TEST(RowSlice, IsPrintedAsItIsRead) {
  for (const char* text : {"3:7", ":448", "-64:", ":", "-8:-1"}) {
    EXPECT_EQ(parse_row_slice(text).str(), text);
  }
}

TEST(RowSlice, RejectsWhatIsNotARange) {
  for (const char* text :
       {"", "5", "a:b", "1:2:3", "1.5:", ":99999999999999999999", " 1:2", "1 :2"}) {
    EXPECT_THROW(parse_row_slice(text), UsageError) << text;
  }
}

TEST(RowSlice, CountsFromTheEndWhereNegative) {
  using Bounds = RowSlice::Bounds;
  EXPECT_EQ(parse_row_slice(":").resolve(10), (Bounds{0, 10}));
  EXPECT_EQ(parse_row_slice("-3:").resolve(10), (Bounds{7, 10}));
  EXPECT_EQ(parse_row_slice(":-3").resolve(10), (Bounds{0, 7}));
  EXPECT_EQ(parse_row_slice("-4:-2").resolve(10), (Bounds{6, 8}));
}

TEST(RowSlice, RejectsEmptyRangesAndRowsThatAreNotThere) {
  for (const char* text : {"5:5", "7:3", "10:", ":11", "-11:", "0:-10"}) {
    EXPECT_THROW(parse_row_slice(text).resolve(10), InvalidArgument) << text;
  }
  EXPECT_THROW(parse_row_slice("-9223372036854775808:").resolve(10), InvalidArgument);
  EXPECT_THROW(parse_row_slice(":9223372036854775807").resolve(10), InvalidArgument);
}

}  // namespace
}  // namespace mpfa::tools
