#include "common/glob.h"

#include <gtest/gtest.h>

#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

// The definition, by recursion.
bool matches_by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return matches_by_definition(pattern.substr(1), name) ||
           (!name.empty() && matches_by_definition(pattern, name.substr(1)));
  }
  return !name.empty() && pattern[0] == name[0] &&
         matches_by_definition(pattern.substr(1), name.substr(1));
}

// All texts of up to `length` letters.
std::vector<std::string> all_texts(const std::string& letters, size_t length) {
  std::vector<std::string> texts = {""};
  for (size_t begin = 0; length > 0; --length) {
    const size_t end = texts.size();
    for (; begin < end; ++begin) {
      for (const char letter : letters) texts.push_back(texts[begin] + letter);
    }
  }
  return texts;
}

TEST(Glob, AgreesWithItsDefinition) {
  const auto names = all_texts("ab", 5);
  for (const std::string& pattern : all_texts("ab*", 5)) {
    for (const std::string& name : names) {
      ASSERT_EQ(glob_matches(pattern, name), matches_by_definition(pattern, name))
          << pattern << " " << name;
    }
  }
}

TEST(Glob, ManyStarsStayFast) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(2000, 'a')));
}

TEST(ChooseNames, KeepsTheOrderOfTheNames) {
  const std::vector<std::string> names = {"c", "a1", "b", "a2"};
  EXPECT_EQ(choose_names(names, {}, "letter"), names);
  EXPECT_EQ(choose_names(names, {"a*", "c", "a1"}, "letter"),
            (std::vector<std::string>{"c", "a1", "a2"}));
}

TEST(ChooseNames, APatternThatFitsNothingIsNamed) {
  try {
    choose_names({"a", "b"}, {"a", "x*"}, "letter");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "no letter fits 'x*': there are 'a', 'b'");
  }
}

TEST(SplitCommas, LeavesOutEmptyParts) {
  std::vector<std::string> parts = {"first"};
  split_commas("a,b,,c,", parts);
  EXPECT_EQ(parts, (std::vector<std::string>{"first", "a", "b", "c"}));
  parts.clear();
  split_commas("", parts);
  split_commas(",,", parts);
  EXPECT_TRUE(parts.empty());
}

}  // namespace
}  // namespace mpfa::tools
