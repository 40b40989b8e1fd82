#include "common/base64.h"

#include <gtest/gtest.h>

namespace mpfa::tools {
namespace {

// The test vectors of RFC 4648, section 10.
TEST(Base64, StandardVectors) {
  EXPECT_EQ(base64_encode(""), "");
  EXPECT_EQ(base64_encode("f"), "Zg==");
  EXPECT_EQ(base64_encode("fo"), "Zm8=");
  EXPECT_EQ(base64_encode("foo"), "Zm9v");
  EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
  EXPECT_EQ(base64_encode("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64_encode("foobar"), "Zm9vYmFy");
}

TEST(Base64, BytesAboveAscii) { EXPECT_EQ(base64_encode("\xff\xfe\xfb"), "//77"); }

}  // namespace
}  // namespace mpfa::tools
