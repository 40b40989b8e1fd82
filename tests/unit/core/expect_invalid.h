// Checks that a call throws InvalidArgument and that the message says what it should.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "mpfa/check.h"

namespace mpfa::core_test {

// `parts` must occur in the message in this order: argument, value, what is allowed.
template <typename Fn>
void expect_invalid(Fn&& call, std::initializer_list<std::string_view> parts) {
  std::string message;
  try {
    call();
  } catch (const InvalidArgument& error) {
    message = error.what();
  }
  ASSERT_FALSE(message.empty()) << "no InvalidArgument was thrown; expected: " << *parts.begin();
  size_t position = 0;
  for (const std::string_view part : parts) {
    const size_t found = message.find(part, position);
    EXPECT_NE(found, std::string::npos) << "\"" << part << "\" is not (in order) in: " << message;
    if (found != std::string::npos) position = found + part.size();
  }
}

}  // namespace mpfa::core_test
