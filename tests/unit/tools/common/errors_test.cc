#include "common/errors.h"

#include <gtest/gtest.h>

namespace mpfa::tools {
namespace {

std::string thrown_text(int64_t page_size) {
  try {
    MPFA_CHECK(page_size == 16, "page_size = ", page_size, ": must be 16");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(WithoutSourceLocation, DropsWhatMpfaCheckAdds) {
  ASSERT_NE(thrown_text(5).find("(errors_test.cc:"), std::string::npos);
  EXPECT_EQ(without_source_location(thrown_text(5)), "page_size = 5: must be 16");
  EXPECT_EQ(without_source_location("a (cache_layout.cc:12) (tensor-inl.h:3)"), "a");
}

TEST(WithoutSourceLocation, LeavesTheRestAlone) {
  for (const char* message : {"", "plain", "'x (a.cc:1) y': no", "(a.cc:1)", "x (a.cc:1).",
                              "x (a.cc)", "x (a.py:1)", "k has shape [2, 3] (as q has)"}) {
    EXPECT_EQ(without_source_location(message), message);
  }
}

TEST(WithContext, SaysWhereAnArgumentWasWrong) {
  const auto message_of = [](auto&& fn) -> std::string {
    try {
      with_context("'file': layer 'x'", fn);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message_of([] { throw InvalidArgument("d = 5"); }), "'file': layer 'x': d = 5");
  EXPECT_EQ(message_of([] { throw IoError("'other': gone"); }), "'other': gone");
  EXPECT_EQ(with_context("unused", [] { return 7; }), 7);
}

}  // namespace
}  // namespace mpfa::tools
