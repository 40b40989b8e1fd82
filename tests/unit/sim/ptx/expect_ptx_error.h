// Errors of the PTX reader name the line.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sim/ptx/lexer.h"

namespace mpfa::sim {

// Fails unless fn() throws a PtxError whose message has `part`.
template <typename Fn>
void expect_ptx_error(const std::string& part, const Fn& fn) {
  try {
    fn();
    ADD_FAILURE() << "nothing was thrown: " << part;
  } catch (const PtxError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace mpfa::sim
