#include "mpfa/check.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "unit/core/expect_invalid.h"

namespace mpfa {
namespace {

static_assert(std::is_base_of_v<std::runtime_error, Error>);
static_assert(std::is_base_of_v<Error, InvalidArgument>);
static_assert(std::is_base_of_v<Error, IoError>);
static_assert(!std::is_base_of_v<IoError, InvalidArgument>);

TEST(Check, PassesSilently) { EXPECT_NO_THROW(MPFA_CHECK(1 + 1 == 2, "arithmetic")); }

TEST(Check, MessageJoinsItsPartsAndEndsWithThePlace) {
  const int page_size = 17;
  const int line = __LINE__ + 2;
  try {
    MPFA_CHECK(page_size == 16, "page_size = ", page_size, ": must be 16");
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()),
              "page_size = 17: must be 16 (check_test.cc:" + std::to_string(line) + ")");
  }
}

TEST(Check, MessageIsMadeOnlyOnFailure) {
  int made = 0;
  const auto part = [&made] {
    ++made;
    return "text";
  };
  MPFA_CHECK(true, part());
  EXPECT_EQ(made, 0);
  EXPECT_THROW(MPFA_CHECK(false, part()), InvalidArgument);
  EXPECT_EQ(made, 1);
}

TEST(Check, ConditionIsEvaluatedOnce) {
  int count = 0;
  MPFA_CHECK(++count == 1, "count");
  EXPECT_EQ(count, 1);
}

TEST(Check, IsOneStatement) {
  bool reached = false;
  if (reached)
    MPFA_CHECK(false, "not reached");
  else
    reached = true;
  EXPECT_TRUE(reached);
}

TEST(Check, ThrowsTheAskedType) {
  EXPECT_THROW(internal::throw_error<IoError>("a/b.cc", 3, "x"), IoError);
  core_test::expect_invalid(
      [] { internal::throw_error<InvalidArgument>("a/b.cc", 3, "x = ", 1.5); },
      {"x = 1.5 (b.cc:3)"});
}

TEST(Check, ShortFileNameDropsFolders) {
  EXPECT_STREQ(internal::short_file_name("src/core/tensor.cc"), "tensor.cc");
  EXPECT_STREQ(internal::short_file_name("tensor.cc"), "tensor.cc");
  EXPECT_STREQ(internal::short_file_name("folder/"), "");
  EXPECT_STREQ(internal::short_file_name(""), "");
}

TEST(Check, StrCat) {
  EXPECT_EQ(internal::str_cat("k[", 3, "] = ", 0.5f, ' ', std::string("end")), "k[3] = 0.5 end");
}

}  // namespace
}  // namespace mpfa
