#include "common/bench_shape.h"

#include <gtest/gtest.h>

#include "common/errors.h"

namespace mpfa::tools {
namespace {

std::string problem(std::string_view text) {
  try {
    parse_bench_shapes(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(BenchShape, ReadsAList) {
  const auto shapes = parse_bench_shapes("1x32:8x128@32768,8x9:3x64@4K");
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0], (BenchShape{1, 32, 8, 128, 32768}));
  EXPECT_EQ(shapes[1], (BenchShape{8, 9, 3, 64, 4096}));
}

TEST(BenchShape, IsPrintedAsItIsRead) {
  const BenchShape shape{3, 40, 8, 128, 77};
  EXPECT_EQ(shape.str(), "3x40:8x128@77");
  EXPECT_EQ(parse_bench_shapes(shape.str()), std::vector<BenchShape>{shape});
}

TEST(BenchShape, EveryMissingPartIsNamed) {
  EXPECT_NE(problem("").find("no batch size"), std::string::npos);
  EXPECT_NE(problem("x").find("no batch size"), std::string::npos);
  EXPECT_NE(problem("1").find("no 'x' after the batch size"), std::string::npos);
  EXPECT_NE(problem("1x").find("no number of query heads"), std::string::npos);
  EXPECT_NE(problem("1x2").find("no ':' after the query heads"), std::string::npos);
  EXPECT_NE(problem("1x2:").find("no number of KV heads"), std::string::npos);
  EXPECT_NE(problem("1x2:2").find("no 'x' after the KV heads"), std::string::npos);
  EXPECT_NE(problem("1x2:2x").find("no head dimension"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64").find("no '@' after the head dimension"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@").find("no length"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@5z").find("'z' after the length"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@5,").find("shape ''"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@5 ").find("' ' after the length"), std::string::npos);
  EXPECT_NE(problem(" 1x2:2x64@5").find("no batch size"), std::string::npos);
  EXPECT_NE(problem("-1x2:2x64@5").find("the batch size must be 1 to"), std::string::npos);
}

TEST(BenchShape, ValuesOutOfRangeAreNamed) {
  EXPECT_NE(problem("0x2:2x64@5").find("the batch size must be 1 to"), std::string::npos);
  EXPECT_NE(problem("1x2000:2x64@5").find("the number of query heads must be"), std::string::npos);
  EXPECT_NE(problem("1x7:2x64@5").find("7 query heads are not a multiple of 2"), std::string::npos);
  EXPECT_NE(problem("1x2:2x96@5").find("96, but must be 64 or 128"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@0").find("the length must be"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@2147483648").find("the length must be"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@9999999999K").find("the length must be"), std::string::npos);
  EXPECT_NE(problem("1x2:2x64@99999999999999999999").find("the length must be"), std::string::npos);
  EXPECT_NE(problem("1048576x1024:1x128@2147483647").find("2^40"), std::string::npos);
  EXPECT_EQ(problem("1x2:2x64@2147483647"), "");
}

}  // namespace
}  // namespace mpfa::tools
