#include "sim/machine/checks.h"

#include <gtest/gtest.h>

#include <string>

#include "mpfa/check.h"

namespace mpfa::sim {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse_checks(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Checks, AllByDefault) { EXPECT_EQ(to_string(Checks()), "all"); }

TEST(Checks, ReadsWhatItPrints) {
  for (const char* text : {"all", "none", "races", "uninitialized", "async", "barriers", "bounds",
                           "races,async", "uninitialized,barriers,bounds"}) {
    EXPECT_EQ(to_string(parse_checks(text)), text);
  }
}

TEST(Checks, SetsTheFieldsThatAreNamed) {
  const Checks checks = parse_checks("async,races");
  EXPECT_TRUE(checks.races);
  EXPECT_TRUE(checks.async);
  EXPECT_FALSE(checks.uninitialized);
  EXPECT_FALSE(checks.barriers);
  EXPECT_FALSE(checks.bounds);
}

TEST(Checks, EveryNameIsAll) {
  EXPECT_EQ(to_string(parse_checks("bounds,barriers,async,uninitialized,races")), "all");
}

TEST(Checks, RejectsOtherNames) {
  for (const char* text : {"", "race", "races,", ",races", "races, async", "all,races", "ALL"}) {
    const std::string message = message_of(text);
    EXPECT_NE(message.find("checks = \"" + std::string(text) + "\""), std::string::npos) << message;
    EXPECT_NE(message.find("must be races, uninitialized, async, barriers or bounds"),
              std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace mpfa::sim
