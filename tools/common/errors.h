// How a command fails: the exit codes, and errors that know where they happened.
#pragma once

#include <string>
#include <utility>

#include "mpfa/check.h"

namespace mpfa::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // a file, its contents, or the machine
inline constexpr int kExitUsage = 2;    // the command line itself is wrong

// The command line is wrong in a way that only the command itself can see.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Calls fn(); what the library throws about an argument then says which file and tensor it was.
template <typename Fn>
decltype(auto) with_context(const std::string& where, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(where + ": " + error.what());
  }
}

}  // namespace mpfa::tools
