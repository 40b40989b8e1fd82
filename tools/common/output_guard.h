// Ctrl-C and output files: a temporary file must not outlive the program.
#pragma once

#include <string>

namespace mpfa::tools {

// Routes SIGINT, SIGTERM and SIGHUP (those not ignored already) through a handler that kills the
// program as usual, except inside an OutputGuard.
void install_signal_handlers();

// While one exists, those signals wait until it is gone. Files are written inside, so that the
// temporary file that AtomicFile keeps is renamed or removed before the program ends. A large file
// takes as long as the disk needs to have it whole, fsync included: Ctrl-C then ends the program
// after that, with the file complete. Anything else may be killed at any time, since it leaves
// nothing behind.
//
// Pipes and devices have no temporary file, and may keep a program waiting for ever: a guard of
// such a path holds nothing back.
class OutputGuard {
 public:
  explicit OutputGuard(const std::string& path);
  ~OutputGuard();
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  bool holds_;
};

// Throws IoError now if `path` could not be written later, so that nobody waits for a result that
// has nowhere to go. Leaves nothing behind; does not touch pipes and devices.
void check_writable(const std::string& path);

// Writes a text file, whole or not at all.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace mpfa::tools
