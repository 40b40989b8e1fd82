// Errors are part of the interface: their text is compared.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mpfa/check.h"

namespace mpfa::internal {

// Fails unless fn() throws InvalidArgument with `text` in its message.
template <typename Fn>
void expect_error(const char* text, const Fn& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error with " << text;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace mpfa::internal
