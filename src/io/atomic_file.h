#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mpfa::internal {

// A file that appears whole or not at all. Bytes go to a temporary file in the target's directory;
// commit() renames it over the target. Without commit(), or when it fails, the target is as it was
// and the temporary is gone.
//
// - A new file gets the usual permissions (0666 less the umask), a replaced one keeps its own; one
//   that may not be written is not replaced either.
// - A symbolic link is followed: what it points to is replaced, or created, not the link.
// - A target that exists and is not a regular file (a FIFO, a terminal, /dev/null) is written
//   directly, as are /dev/stdout, /dev/stderr and /dev/fd/N, which mean the open descriptor even
//   when it leads to a regular file. There, "whole or not at all" cannot hold.
//
// Every failure throws IoError naming the path and the system's reason. One thread at a time.
class AtomicFile {
 public:
  // Opens the temporary file at once, so that a target that cannot be written is reported before
  // the work whose result it is to hold.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends all bytes. Throws InvalidArgument after commit() or a failure.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  // Flushes to the disk and gives the file its name. Throws InvalidArgument after commit() or a
  // failure.
  void commit();

 private:
  void open_direct(const std::string& target);
  void open_temporary();
  void discard() noexcept;
  [[noreturn]] void fail(int error);

  std::string path_;       // as the caller spells it, for messages
  std::string target_;     // the same with symbolic links resolved
  std::string temporary_;  // empty when the target is written directly
  int fd_ = -1;
};

}  // namespace mpfa::internal
