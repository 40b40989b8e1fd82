// Running another program, without a shell.
#pragma once

#include <string>
#include <vector>

namespace mpfa::tools {

struct ProcessResult {
  int exit_code = -1;  // 128 + N where signal N ended it
  std::string out;     // its standard output
  std::string err;     // its standard error
};

// Runs argv[0], found on PATH unless it has a slash, with no standard input, and waits for it.
// Throws IoError if it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv);

}  // namespace mpfa::tools
