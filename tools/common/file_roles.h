// Which files a command reads and writes.
#pragma once

#include <string>
#include <vector>

namespace mpfa::tools {

// A file that the command line names, and the option or argument that names it.
struct NamedFile {
  std::string option;
  std::string path;  // empty: not given
};

// Throws UsageError before anything is read or written where an output is an input, which would be
// lost, or where two outputs are one file; and for an output "-", which only --json understands.
// Pipes and devices may be named as often as the user likes.
void check_file_roles(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

}  // namespace mpfa::tools
