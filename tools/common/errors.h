// How a command fails: the exit codes, and errors that know where they happened.
#pragma once

#include <string>
#include <utility>

#include "mpfa/check.h"

namespace mpfa::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // a file, its contents, or the machine
inline constexpr int kExitUsage = 2;    // the command line itself is wrong

// The message of an error of the library, without the place in its source, which says nothing to a
// user of the command: "d = 5: must be 64 (calibrate.cc:43)" gives "d = 5: must be 64".
std::string without_source_location(const std::string& message);

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
