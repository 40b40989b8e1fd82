// Expectations on messages of errors.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace mpfa::sim {

// `action` throws an ErrorType whose message holds `part`.
template <typename ErrorType, typename Action>
void expect_error(Action&& action, std::string_view part) {
  try {
    action();
  } catch (const ErrorType& error) {
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
        << "message: " << error.what() << "\nlacks: " << part;
    return;
  }
  ADD_FAILURE() << "no error; expected: " << part;
}

inline void expect_finding(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << "message: " << message << "\nlacks: " << part;
}

}  // namespace mpfa::sim
